/* SPDX-License-Identifier: BSD-2-Clause */
/* A message that decodes encodes to the same bytes again, except for text that
 * was made printable; the first byte chooses the number of descriptors. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/ipc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct ur_ipc_msg m, again;
	static uint8_t buf[UR_IPC_MAX];
	unsigned int fds = len ? data[0] % 4 : 0;
	int n;

	if (len < 1 || ur_ipc_decode(&m, data + 1, len - 1, fds))
		return 0;
	assert(strlen(m.text) < sizeof(m.text));
	assert(strlen(m.comm) < sizeof(m.comm));
	n = ur_ipc_encode(&m, buf, sizeof(buf));
	assert(n == (int)len - 1);
	assert(ur_ipc_decode(&again, buf, (size_t)n, fds) == 0);
	assert(again.type == m.type && again.slot == m.slot);
	assert(again.nslots == m.nslots &&
	       !memcmp(again.slots, m.slots, m.nslots * sizeof(m.slots[0])));
	return 0;
}

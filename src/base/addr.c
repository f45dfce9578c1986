/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/addr.h"

#include <arpa/inet.h>

bool ur_addr_parse(uint8_t addr[16], const char *text)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		ur_addr_from_v4(addr, &v4);
		return true;
	}
	return inet_pton(AF_INET6, text, addr) == 1;
}

void ur_addr_text(const uint8_t addr[16], char text[UR_ADDR_TEXT])
{
	if (ur_addr_is_v4(addr))
		inet_ntop(AF_INET, addr + 12, text, UR_ADDR_TEXT);
	else
		inet_ntop(AF_INET6, addr, text, UR_ADDR_TEXT);
}

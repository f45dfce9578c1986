/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef UR_TOOLS_SHOW_TEXT_H
#define UR_TOOLS_SHOW_TEXT_H

struct json_object;

/* Print the document of `urnic show --json` for people. */
void ur_show_text(struct json_object *doc);

#endif

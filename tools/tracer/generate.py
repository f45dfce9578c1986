#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Wrappers for liburnic-trace.so from calls.txt, and its version script.

    generate.py calls.txt LIBRARY=MAP... calls_gen.h wrappers.c tracer.map

Each export of the maps must be in calls.txt.
"""

import re
import sys

PROTOTYPE = re.compile(r'(?:op=(\S+) )?(.*?[ *])(\w+)\((.*)\)\s*(!)?\s*(?:@(\w+))?$')
LIBS = {'libibverbs': 'libibverbs.so.1', 'librdmacm': 'librdmacm.so.1'}

# Functions of args.c for arguments of a type.
BY_TYPE = {
    'struct ibv_context *': 'context', 'struct ibv_device *': 'device',
    'struct ibv_qp *': 'qp', 'access_t': 'access', 'uaccess_t': 'access',
    'char *': 'string', 'struct sockaddr *': 'sockaddr',
    'enum rdma_port_space': 'space',
}
# The structures among them: they name their members themselves.
STRUCTS = {
    'struct ibv_qp_init_attr *': 'tr_arg_qp_init(&c, {0});',
    'struct ibv_qp_init_attr_ex *':
        'tr_arg_qp_init(&c, (const struct ibv_qp_init_attr *)(void *){0});',
    'struct ibv_srq_init_attr *': 'tr_arg_srq_init(&c, {0});',
    'struct ibv_ah_attr *': 'tr_arg_ah(&c, "{0}.", {0});',
    'struct rdma_conn_param *': 'tr_arg_conn(&c, {0});',
}
FORMATS = {'int': '%d', 'unsigned': '%u', 'uint8_t': '%u', 'uint16_t': '%u',
           'uint32_t': '%u', 'long': '%ld', 'unsigned long': '%lu',
           'size_t': '%zu', 'uint64_t': '0x%lx', 'socklen_t': '%u'}
# (call, argument): what is recorded of it instead, before the call.
BEFORE = {
    ('ibv_modify_qp', 'attr'): 'tr_arg_qp_attr(&c, attr, attr_mask);',
    ('ibv_attach_mcast', 'gid'): 'tr_arg_gid(&c, "gid", gid);',
    ('ibv_detach_mcast', 'gid'): 'tr_arg_gid(&c, "gid", gid);',
    ('ibv_modify_qp', 'attr_mask'): 'tr_arg_qp_mask(&c, "attr_mask", attr_mask);',
    ('ibv_query_qp', 'attr_mask'): 'tr_arg_qp_mask(&c, "attr_mask", attr_mask);',
}
# Results, after a call that has succeeded; r is its value.
AFTER = {
    'ibv_get_device_list': 'if (num_devices)\n\t\t\ttr_arg(&c, ">num_devices", "%d", *num_devices);',
    'ibv_query_port': 'tr_out_port(&c, (const struct ibv_port_attr *)(void *)port_attr);',
    'ibv_query_gid': 'tr_arg_gid(&c, ">gid", gid);',
    'ibv_create_qp': 'tr_out_qp(&c, r);', 'ibv_create_qp_ex': 'tr_out_qp(&c, r);',
    'ibv_open_qp': 'tr_out_qp(&c, r);',
    'ibv_create_cq': 'tr_out_cq(&c, r);',
    'ibv_reg_mr': 'tr_out_mr(&c, r);', 'ibv_reg_mr_iova': 'tr_out_mr(&c, r);',
    'ibv_reg_mr_iova2': 'tr_out_mr(&c, r);', 'ibv_reg_dmabuf_mr': 'tr_out_mr(&c, r);',
    'ibv_reg_mr_ex': 'tr_out_mr(&c, r);', 'ibv_reg_dm_mr': 'tr_out_mr(&c, r);',
    'ibv_import_mr': 'tr_out_mr(&c, r);',
    'ibv_query_qp': 'tr_arg_qp_attr(&c, attr, -1);',
    'ibv_get_cq_event': 'tr_out_pointer(&c, ">cq", (void **)cq);',
    'ibv_get_async_event': 'tr_out_async(&c, event);',
    'rdma_create_id': 'tr_out_pointer(&c, ">id", (void **)id);',
    'rdma_create_ep': 'tr_out_pointer(&c, ">id", (void **)id);',
    'rdma_get_request': 'tr_out_pointer(&c, ">id", (void **)id);',
    'rdma_create_qp': 'tr_out_id_qp(&c, id);',
    'rdma_create_qp_ex': 'tr_out_id_qp(&c, id);',
    'rdma_get_cm_event': 'tr_out_cm_event(&c, event);',
}


class Call:
    def __init__(self, line, lib, kind, failure):
        m = PROTOTYPE.match(line)
        if not m:
            sys.exit(f'calls.txt: {line}')
        self.op, result, self.name, args, self.blocks, self.hook = m.groups()
        self.result = result.strip()
        self.lib, self.kind, self.failure = lib, kind, failure
        self.args = []
        for arg in (args.split(', ') if args != 'void' else []):
            t, name = re.match(r'(.*?[ *])(\w+)$', arg).groups()
            self.args.append((t.strip(), name))
        self.c = self.name if not self.op else self.name + '_op'


def read(path):
    calls, hand, skipped = [], [], set()
    for line in open(path, encoding='ascii'):
        line = line.strip()
        if line.startswith('['):
            lib, kind, failure = line[1:-1].split()
        elif line.startswith('skip '):
            skipped.update(line.split()[1:])
        elif line.startswith('hand '):
            hand.append((line.split()[1], kind, failure))
        elif line and line[0] != '#':
            calls.append(Call(line, lib, kind, failure))
    return calls, hand, skipped


def read_map(path):
    """[(version, names)], in the order of the file; private nodes are left out."""
    text = re.sub(r'/\*.*?\*/', '', open(path, encoding='utf-8').read(),
                  flags=re.DOTALL)
    nodes = []
    for version, body in re.findall(r'(\w[\w.]*) \{(.*?)\}', text, re.DOTALL):
        names = re.sub(r'local:.*', '', body, flags=re.DOTALL)
        nodes.append((version, re.findall(r'(\w+);', names)))
    return [n for n in nodes if 'PRIVATE' not in n[0]]


def arguments(call):
    return ', '.join(f'{t} {n}'.replace('* ', '*') for t, n in call.args) or 'void'


def record(call, t, name):
    """The statement that records an argument."""
    special = BEFORE.get((call.name, name))
    if special:
        return special
    if t in STRUCTS:
        return STRUCTS[t].format(name)
    if t in BY_TYPE:
        return f'tr_arg_{BY_TYPE[t]}(&c, "{name}", {name});'
    if t.endswith('*'):
        return f'tr_arg(&c, "{name}", "%p", (void *){name});'
    if t.startswith('enum'):
        return f'tr_arg(&c, "{name}", "%d", (int){name});'
    return f'tr_arg(&c, "{name}", "{FORMATS.get(t, "%d")}", {name});'


def finish(call):
    """How it ends: (the value, the expression for errno)."""
    if call.result == 'void':
        return '0', '0'
    if call.result.endswith('*'):
        return '(int64_t)(intptr_t)r', 'tr_failed_null(&c, r)'
    if call.result == 'uint16_t':
        return 'r', '0'
    return '(int64_t)r', f'tr_failed_{call.failure}(&c, (int64_t)r)'


def wrapper(call, version):
    out, names = [], ', '.join(n for _, n in call.args)
    result = call.result + ('' if call.result.endswith('*') else ' ')
    head = f'{result}tr_{call.c}({arguments(call)})'
    if call.op:
        out.append(f'static {result}(*real_{call.c})({arguments(call)});')
        out.append(f'static {head}\n{{')
        real = f'real_{call.c}'
    else:
        out.append(f'{head} TR_SYMBOL("{call.name}");')
        out.append(f'{head}\n{{')
        real = 'real'
    out.append('\tstruct tr_call c;')
    if not call.op:
        out.append(f'\tstatic __typeof__(&tr_{call.c}) _Atomic known;')
        out.append(f'\t__typeof__(&tr_{call.c}) real = known;')
    void = call.result == 'void'
    if not void:
        out.append(f'\t{result}r;')
    if not call.op:
        out.append(f'\n\tif (!real) {{\n\t\treal = (__typeof__(real))tr_real('
                   f'"{LIBS[call.lib]}", "{call.name}", "{version}");\n'
                   '\t\tknown = real;\n\t}')
    out.append(f'\ttr_enter(&c, UR_TRACE_CALL_{call.name}, UR_TRACE_{call.kind});')
    if call.args:
        out.append('\tif (c.on) {')
        out += ['\t\t' + record(call, t, n) for t, n in call.args
                if not (call.name.startswith('ibv_query') and n in ('attr', 'init'))]
        out.append('\t}')
    out.append(f'\ttr_start(&c, {"true" if call.blocks else "false"});')
    if call.name == 'ibv_create_cq_ex':
        # data_ex.c reads them; the caller's structure stays as it was.
        out.append('\tuint64_t flags = attr->wc_flags;\n')
        out.append('\tattr->wc_flags |= IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN;')
    out.append(f'\t{"" if void else "r = "}{real}({names});')
    out.append('\ttr_stop(&c);')
    if call.name == 'ibv_create_cq_ex':
        out.append('\tattr->wc_flags = flags;')
    value, failed = finish(call)
    if call.hook:
        passed = ', '.join(([] if void else ['r']) + ([names] if names else []))
        out.append(f'\t{call.hook}({passed});')
    if call.name in AFTER:
        out.append(f'\tif (c.on && !{failed}) {{\n\t\t{AFTER[call.name]}\n\t}}')
    out.append(f'\ttr_leave(&c, {value}, {failed});')
    if not void:
        out.append('\treturn r;')
    out.append('}\n')
    return '\n'.join(out)


def main():
    table, *maps, header, source, script = sys.argv[1:]
    calls, hand, skipped = read(table)
    nodes = [n for m in maps for n in read_map(m.split('=')[1])]
    version = {name: v for v, names in nodes for name in names}
    symbols = {c.name for c in calls if not c.op}
    if symbols | skipped != set(version):
        sys.exit('calls.txt and the maps differ: '
                 f'{sorted((symbols | skipped) ^ set(version))}')
    rows = {}
    for c in calls:
        rows[c.name] = (c.kind, c.failure)
    rows.update({name: (kind, failure) for name, kind, failure in hand})
    with open(header, 'w', encoding='ascii') as f:
        f.write('/* Generated from calls.txt. */\n')
        for name, (kind, failure) in rows.items():
            f.write(f'CALL({name}, {kind}, {int(failure == "minus")})\n')
    with open(source, 'w', encoding='ascii') as f:
        f.write('/* Generated from calls.txt. */\n#include "tracer.h"\n\n')
        for c in calls:
            f.write(wrapper(c, version.get(c.name)) + '\n')
        f.write('void tr_wrap_table(struct verbs_context *v)\n{\n')
        for c in calls:
            if c.op:
                mine = f'(__typeof__(v->{c.op}))tr_{c.c}'
                f.write(f'\tif (v->{c.op} && v->{c.op} != {mine}) {{\n'
                        f'\t\treal_{c.c} = (__typeof__(real_{c.c}))v->{c.op};\n'
                        f'\t\tv->{c.op} = {mine};\n\t}}\n')
        f.write('}\n\nvoid tr_unwrap_table(struct verbs_context *v)\n{\n')
        for c in calls:
            if c.op:
                mine = f'(__typeof__(v->{c.op}))tr_{c.c}'
                f.write(f'\tif (v->{c.op} == {mine})\n'
                        f'\t\tv->{c.op} = (__typeof__(v->{c.op}))real_{c.c};\n')
        f.write('}\n\nconst struct tr_symbol tr_symbols[] = {\n')
        f.writelines(f'\t{{ "{LIBS[c.lib]}", "{c.name}", "{version[c.name]}", '
                     f'(void *)tr_{c.c} }},\n' for c in calls if not c.op)
        f.write('};\nconst uint32_t tr_symbol_count =\n'
                '\tsizeof(tr_symbols) / sizeof(tr_symbols[0]);\n')
    with open(script, 'w', encoding='ascii') as f:
        f.write('/* Generated from calls.txt. */\n')
        before = ''
        for v, names in nodes:
            ours = [n for n in names if n in symbols]
            if not ours:
                continue
            f.write(f'{v} {{\nglobal:\n')
            f.writelines(f'\t{n};\n' for n in ours)
            f.write('local:\n\t*;\n' if not before else '')
            f.write('};\n')
            before = v
        f.write('URNIC_TRACE {\nglobal:\n\turnic_trace_attach;\n};\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())

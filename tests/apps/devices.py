# SPDX-License-Identifier: BSD-2-Clause
"""ibv_devices, ibv_devinfo, ibv_asyncwatch."""

import re
import subprocess

from harness.env import Case, Failure, gid_kind


def expect(pattern, text):
    if not re.search(pattern, text, re.M):
        raise Failure(f'no "{pattern}" in:\n{text}')


def devices(env):
    text = env.call(env.a, 'ibv_devices')
    expect(r'^\s+urnic0\s+[0-9a-f]{16}$', text)
    expect(r'^\s+urniw0\s+[0-9a-f]{16}$', text)


def devinfo(env):
    text = env.call(env.a, 'ibv_devinfo')
    for pattern in (r'^hca_id:\s+urnic0', r'transport:\s+InfiniBand \(0\)',
                    r'state:\s+PORT_ACTIVE \(4\)',
                    r'active_mtu:\s+\d+ \(\d\)',
                    r'link_layer:\s+Ethernet'):
        expect(pattern, text)


def devinfo_list(env):
    expect(r'^\s+urnic0$', env.call(env.a, 'ibv_devinfo', '-l'))


def devinfo_verbose(env):
    text = env.call(env.a, 'ibv_devinfo', '-v')
    limits = dict(re.findall(r'(max_\w+):\s+(\d+)', text))
    for name, least in (('max_qp_wr', 16384), ('max_sge', 32),
                        ('max_cqe', 4000000), ('max_qp_rd_atom', 16)):
        if int(limits.get(name, 0)) < least:
            raise Failure(f'{name} {limits.get(name)} in:\n{text}')
    kinds = {gid_kind(addr) for _, addr in env.gids(env.a)}
    if not ({'v4', 'v6'} if env.a.has_ip6() else {'v4'}) <= kinds:
        raise Failure(f'GIDs are {env.gids(env.a)}')
    expect(r'GID\[.*RoCE v2', text)


def gids_are_addresses(env):
    """Every address of the host is a GID."""
    text = env.a.sh('ip', '-o', 'addr')
    have = env.call(env.a, 'ibv_devinfo', '-v').lower()
    for addr in re.findall(r'inet6? ([0-9a-f.:]+)', text):
        shown = addr if ':' in addr else '::ffff:' + addr
        if not re.search(r'gid\[.*\s' + re.escape(shown)
                         + r'[\s,]', have):
            raise Failure(f'{addr} is not among the GIDs:\n{have}')


def active_mtu(env):
    """The port's MTU is the largest that fits its interface."""
    text = env.call(env.a, 'ibv_devinfo')
    m = re.search(r'active_mtu:\s+(\d+)', text)
    env.a.needs_own('the MTU of the machine is not known')
    want = 1024 if env.place.mtu == 1500 else 4096
    if int(m[1]) != want:
        raise Failure(f'active_mtu {m[1]} instead of {want}')


def asyncwatch(env):
    env.a.needs_own('adds an address')
    p = env.run(env.a, 'ibv_asyncwatch')
    p.wait_text('async event', 10)
    env.a.sh('ip', 'addr', 'add', '10.9.77.1/32', 'dev', env.a.dev)
    try:
        p.wait_text(r'event_type IBV_EVENT_GID_CHANGE', 5)
        text = env.call(env.a, 'ibv_devinfo', '-v')
        expect(r'GID\[.*10\.9\.77\.1', text)
    finally:
        env.a.sh('ip', 'addr', 'del', '10.9.77.1/32', 'dev', env.a.dev)
    if '10.9.77.1' in env.call(env.a, 'ibv_devinfo', '-v'):
        raise Failure('a deleted address is still a GID')


def urnic_devices(env):
    text = env.a.sh(env.urnic, 'devices')
    expect('^urnic0  RoCEv2', text)
    expect('^urniw0  iWARP', text)


def iwarp_devinfo(env):
    """What ibv_devinfo shows of the kernel's siw."""
    text = env.call(env.a, 'ibv_devinfo', '-v', '-d', 'urniw0')
    for pattern in (r'transport:\s+iWARP \(1\)',
                    r'state:\s+PORT_ACTIVE \(4\)',
                    r'link_layer:\s+Ethernet',
                    r'max_ah:\s+0$', r'max_pkeys:\s+0$',
                    r'gid_tbl_len:\s+1$', r'pkey_tbl_len:\s+0$'):
        expect(pattern, text)


def first_is_roce(env):
    """Programs that open the first device get the one they always got."""
    names = env.call(env.a, 'ibv_devinfo', '-l').split()
    if names[-2:] != ['urnic0', 'urniw0']:
        raise Failure(f'devices are {names}')


def interfaces_go(env):
    """What pyverbs looks at shows no interface that there was once."""
    env.a.needs_own('makes an interface')
    net = '/sys/class/infiniband/urnic0/device/net'
    show = ('python3', '-c', f'import os; print(os.listdir("{net}"))')
    env.a.sh('ip', 'link', 'add', 'gone0', 'type', 'veth', 'peer', 'name',
             'gone1')
    try:
        env.a.sh('ip', 'addr', 'add', '10.99.0.1/24', 'dev', 'gone0')
        env.a.sh('ip', 'link', 'set', 'gone0', 'up')
        expect("'gone0'", env.call(env.a, *show))
    finally:
        env.a.sh('ip', 'link', 'del', 'gone0')
    text = env.call(env.a, *show)
    if 'gone0' in text:
        raise Failure(text)


def urnic_run_exit_code(env):
    p = env.run(env.a, 'sh', '-c', 'exit 7')
    if p.wait(10) != 7:
        raise Failure('urnic run hides the exit code of its command')


def not_a_command(env):
    p = env.run(env.a, '/nonexistent/command')
    if p.wait(10) in (0, -11, -6) or not p.text():
        raise Failure(f'exit {p.p.returncode}: {p.describe()}')


def without_urnic(env):
    """The distribution's library still finds nothing by itself."""
    r = subprocess.run(env.a.wrap(['ibv_devices']), capture_output=True,
                       text=True, timeout=10)
    if 'urnic' in r.stdout:
        raise Failure('urnic shows up without urnic run:\n' + r.stdout)


CASES = [
    Case('ibv_devices', devices),
    Case('ibv_devinfo', devinfo),
    Case('ibv_devinfo-list', devinfo_list),
    Case('ibv_devinfo-verbose', devinfo_verbose),
    Case('gids-are-addresses', gids_are_addresses),
    Case('active-mtu', active_mtu),
    Case('ibv_asyncwatch', asyncwatch),
    Case('urnic-devices', urnic_devices),
    Case('iwarp-devinfo', iwarp_devinfo),
    Case('first-is-roce', first_is_roce),
    Case('interfaces-go', interfaces_go),
    Case('urnic-run-exit-code', urnic_run_exit_code),
    Case('urnic-run-not-a-command', not_a_command),
    Case('without-urnic', without_urnic),
]

# SPDX-License-Identifier: BSD-2-Clause
"""Devices as a file defines them, and as interfaces make and end them."""

import json
import os
import re
import tempfile
import time

from harness import clock
from harness.env import Case
from harness.proc import Failure, Proc


class File:
    """A configuration that lasts as long as the case."""

    def __init__(self, *devices, text=None):
        self.text = text or json.dumps({'devices': devices})

    def __enter__(self):
        fd, self.name = tempfile.mkstemp(prefix='urnic-', suffix='.json')
        os.write(fd, self.text.encode())
        os.close(fd)
        return self

    def __exit__(self, *exc):
        os.unlink(self.name)

    def proc(self, env, host, *argv):
        """Start a program that has these devices."""
        argv = ['env', f'URNIC_CONFIG={self.name}', env.urnic, 'run',
                '--'] + [str(a) for a in argv]
        return Proc(host.wrap(argv), clock.environ(env.progs, argv))

    def call(self, env, host, *argv, timeout=30, code=0):
        p = self.proc(env, host, *argv)
        try:
            if p.wait(timeout) != code:
                raise Failure(f'exit {p.p.returncode}: {p.describe()}')
            return p.text()
        finally:
            p.end()

    def tool(self, env, host, *argv):
        """What the urnic command says with these devices."""
        return host.sh('env', f'URNIC_CONFIG={self.name}', env.urnic, *argv)


def device(name, kind='roce', **keys):
    return dict(name=name, kind=kind, **keys)


def expect(pattern, text, there=True):
    if bool(re.search(pattern, text, re.M)) != there:
        raise Failure(f'{"no" if there else "a"} "{pattern}" in:\n{text}')


def listed(env):
    """Names, kinds, personality and limits are those of the file."""
    with File(device('first', 'iwarp'),
              device('second', mtu=512, limits={'max_qp': 9, 'max_cqe': 50},
                     personality={'vendor_id': '0x1234', 'fw_ver': '7.8',
                                  'vendor_part_id': 77,
                                  'node_guid': '0200:c0ff:fe00:0201'})) as f:
        text = f.call(env, env.a, 'ibv_devinfo', '-v')
        for pattern in (r'^hca_id:\s+first', r'transport:\s+iWARP',
                        r'^hca_id:\s+second', r'fw_ver:\s+7\.8$',
                        r'vendor_id:\s+0x1234$', r'vendor_part_id:\s+77$',
                        r'node_guid:\s+0200:c0ff:fe00:0201$',
                        r'max_qp:\s+9$', r'max_cqe:\s+50$',
                        r'active_mtu:\s+512 '):
            expect(pattern, text)
        expect('urni[cw]0', text, False)
        text = f.tool(env, env.a, 'devices')
        expect('^first  iWARP', text)
        expect('^second  RoCEv2', text)
        text = f.call(env, env.a, 'sh', '-c',
                      'cat /sys/class/infiniband/second/device/device '
                      '/sys/class/infiniband_verbs/uverbs1/ibdev '
                      '/sys/class/infiniband/second/fw_ver')
        if text.split() != ['0x004d', 'second', '7.8']:
            raise Failure(f'sysfs says {text}')


def mistake(env):
    """Programs find no device, and each says why in one line."""
    with File(text='{ "devices": [\n  { "nam": "x" } ] }') as f:
        line = f'{f.name}:2:5: expected one of the keys '
        p = Proc(env.a.wrap([env.urnic, 'check-config', f.name]))
        if p.wait(10) != 1 or not p.text().startswith(line):
            raise Failure(f'check-config: {p.describe()}')
        p = f.proc(env, env.a, 'ibv_devices')
        if p.wait(10) != 125 or line not in p.text():
            raise Failure(f'run: {p.describe()}')
    with File(device('x')) as f:
        text = env.a.sh(env.urnic, 'check-config', f.name)
        if text != 'x  RoCEv2  on all addresses\n':
            raise Failure(f'check-config says {text}')


def addresses(env):
    """A device has its addresses only, and connections find it by them."""
    env.a.needs_own('makes interfaces')
    for addr in ('10.76.0.1', '10.76.0.2'):
        env.a.sh('ip', 'addr', 'add', addr + '/32', 'dev', env.a.dev)
    try:
        with File(device('one', addresses=['10.76.0.1']),
                  device('two', addresses=['10.76.0.2']),
                  device('rest')) as f:
            text = f.tool(env, env.a, 'devices', '--json')
            gids = {d['name']: [g['address'] for g in d['gids']]
                    for d in json.loads(text)}
            if (gids['one'], gids['two']) != (['10.76.0.1'], ['10.76.0.2']) \
                    or not {'10.76.0.1', '10.76.0.2'} < set(gids['rest']):
                raise Failure(f'addresses are {gids}')
            for name in ('one', 'two'):
                pingpong(env, f, name)
            for addr in ('10.76.0.1', '10.76.0.2', env.a.ip4):
                rping(env, f, addr)
    finally:
        for addr in ('10.76.0.1', '10.76.0.2'):
            env.a.sh('ip', 'addr', 'del', addr + '/32', 'dev', env.a.dev)


def pingpong(env, f, name):
    """Two devices of a process' host share the port and the daemon."""
    port = env.port()
    argv = ['ibv_rc_pingpong', '-d', name, '-g', 0, '-p', port, '-n', 200]
    s = f.proc(env, env.a, *argv)
    try:
        s.wait_listen(port)
        f.call(env, env.a, *argv, env.a.ip4)
        if s.wait(10):
            raise Failure(f'{name}: {s.describe()}')
    finally:
        s.end()


def rping(env, f, addr):
    """The server listens on every device."""
    port = env.port()
    s = f.proc(env, env.a, 'rping', '-s', '-C', 3, '-p', port)
    try:
        for _ in range(50):
            c = f.proc(env, env.a, 'rping', '-c', '-C', 3, '-V', '-a', addr,
                       '-p', port)
            if c.wait(20) == 0:
                break
            if not s.running():
                raise Failure(f'{addr}: {s.describe()} {c.describe()}')
        else:
            raise Failure(f'{addr}: {c.describe()}')
        if s.wait(20):
            raise Failure(f'{addr}: {s.describe()}')
    finally:
        s.end()


def life(what, kind):
    def run(env):
        env.a.needs_own('makes interfaces')
        with File(device('bound', kind, interface='life0'),
                  device('rest', kind, addresses=[env.a.ip4])) as f:
            try:
                f.call(env, env.a, env.prog('device_life'), what, 'bound',
                       'life0', timeout=60)
            finally:
                env.a.sh('ip', 'link', 'del', 'life0', check=False)
    return run


def shown(env):
    """`urnic show` lists completion queues and memory regions."""
    s = env.run(env.a, 'ibv_rc_pingpong', '-p', env.port(), '-e', '-s', 8192)
    try:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            for d in devices_shown(env):
                if d['device'] == 'urnic0' and d['mrs']:
                    cq, mr = d['cqs'][0], d['mrs'][0]
                    if (cq['qps'], cq['channel'], mr['length'],
                            d['mr_count'], d['mr_bytes']) != (
                                2, True, 8192, 1, 8192):
                        raise Failure(f'shown is {d}')
                    expect(r'^ +mrs \(1\)', env.a.sh(env.urnic, 'show'))
                    return
            time.sleep(0.05)
        raise Failure(f'no region is shown: {env.show(env.a)}')
    finally:
        s.end()


def devices_shown(env):
    for p in env.show(env.a)['processes']:
        yield from p.get('report', {}).get('devices', [])


def lowered(env):
    """Lowered limits are reported, and hold."""
    limits = {'max_qp': 9, 'max_cq': 11, 'max_srq': 5, 'max_mr': 20,
              'max_pd': 6, 'max_ah': 7, 'max_qp_wr': 60, 'max_srq_wr': 50}
    with File(device('low', limits=limits)) as f:
        for what in ('qps', 'cqs', 'srqs', 'mrs', 'ahs', 'pds',
                     'recv_wr', 'send_wr', 'srq_wr'):
            f.call(env, env.a, env.prog('limits'), '-M', what)
    with File(device('low', limits={'max_cqe': 1000})) as f:
        f.call(env, env.a, env.prog('limits'), '-M', 'cqe')


CASES = [Case('shown', shown), Case('lowered', lowered), Case('listed', listed), Case('mistake', mistake),
         Case('addresses', addresses)]
CASES += [Case(f'{what}-{kind}', life(what, kind))
          for what in ('verbs', 'cm', 'port') for kind in ('roce', 'iwarp')]

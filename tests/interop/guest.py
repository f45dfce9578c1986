# SPDX-License-Identifier: BSD-2-Clause
"""The guest: a virtual machine whose kernel is the peer.

It hangs on a tap device in a network namespace of its own, which has no way
out; urnic runs in that namespace.  Commands go to the guest by ssh through a
second network device, so that loss on the wire does not touch them.
"""

import glob
import os
import re
import shlex
import signal
import shutil
import subprocess
import tempfile
import time

from harness.net import Host, Place, loss_filter
from harness.proc import Failure, Proc, Skip, sh

HERE = os.path.dirname(os.path.abspath(__file__))
TAP = 'vm0'
MARK = 'URNIC_CASE=1'
OFFLOADS = ('csum', 'guest_csum', 'gso', 'guest_tso4', 'guest_tso6',
            'guest_ufo', 'guest_ecn', 'host_tso4', 'host_tso6', 'host_ufo',
            'host_ecn')


class GuestHost(Host):
    """The kernel's side: what runs on it runs over ssh."""

    def __init__(self, place):
        super().__init__(None, '10.81.0.2', 'fd81::2', 'eth0')
        self.place = place

    def wrap(self, argv):
        """A guest's command line.

        No `env`, no `timeout`: busybox' would run its own applet of that
        name instead of the program.
        """
        return self.place.ssh + [f'export {MARK}; exec '
                                 + shlex.join(map(str, argv))]

    def script(self, text, timeout=90):
        """Run shell text in the guest; its output.

        ssh itself may fail on a busy machine, and says so with 255.
        """
        left = 3
        while True:
            try:
                return sh(*self.place.ssh, text, timeout=timeout)
            except Failure as e:
                if not left or ': exit 255\n' not in str(e):
                    raise
            left -= 1
            time.sleep(0.5)

    def put(self, path, target):
        """Copy a program into the guest."""
        with open(path, 'rb') as f:
            subprocess.run(
                self.place.ssh + [f'cat >{target} && chmod 755 {target}'],
                stdin=f, check=True, timeout=60)

    def sweep(self):
        """Kill what cases have left running."""
        self.script('for p in /proc/[0-9]*; do grep -qs ' + MARK +
                    ' $p/environ && kill -9 ${p#/proc/}; done; true')

    def healthy(self):
        """Its kernel has neither crashed nor seen a wrong checksum."""
        said = self.script('dmesg | grep -v "Modules linked in" | grep -E '
                           '-A9 "BUG:|Oops:|WARNING:|general protection|'
                           '(rxe|siw).*([Cc]rc|CRC|[Bb]ad)" || true')
        if said.strip():
            raise Failure("the guest's kernel complains:\n" + said)

    def pids(self):
        return []


class GuestPlace(Place):
    """.a is urnic in the namespace, .b the kernel in the guest."""

    def __init__(self, cache, accel=None, mtu=4200):
        self.kind, self.mtu, self.hosts = 'guest', mtu, []
        self.cache, self.accel = cache, accel
        self.vm, self.linux, self.runs_on = None, '', ''

    def __enter__(self):
        preconditions()
        self.dir = tempfile.mkdtemp(prefix='urnic-guest.')
        try:
            self._wire()
            self._boot()
        except BaseException:
            self._remove()
            raise
        return self

    def _wire(self):
        ns = self._ns('v')
        self.a = Host(ns, '10.81.0.1', 'fd81::1', TAP)
        self.b = GuestHost(self)
        self.hosts = [self.a]
        self.ssh = ['ip', 'netns', 'exec', ns, 'ssh', '-F', 'none', '-q',
                    '-i', f'{self.cache}/key', '-p', '2222',
                    '-o', f'ControlPath={self.dir}/ssh',
                    '-o', 'ControlMaster=auto', '-o', 'ControlPersist=yes',
                    '-o', 'StrictHostKeyChecking=no',
                    '-o', 'UserKnownHostsFile=/dev/null',
                    '-o', 'ConnectTimeout=5', 'root@127.0.0.1']

        def ip(*args):
            sh('ip', '-n', ns, *args)
        ip('link', 'set', 'lo', 'up')
        ip('tuntap', 'add', 'dev', TAP, 'mode', 'tap')
        ip('link', 'set', TAP, 'mtu', self.mtu, 'up')
        ip('addr', 'add', self.a.ip4 + '/24', 'dev', TAP)
        ip('-6', 'addr', 'add', self.a.ip6 + '/64', 'dev', TAP, 'nodad')

    def _boot(self):
        """KVM if it boots the guest, emulation otherwise."""
        kvm = self.accel is None and os.access('/dev/kvm', os.R_OK | os.W_OK)
        tried = [self.accel] if self.accel else ['kvm'] * kvm + ['tcg']
        for accel in tried:
            start = time.monotonic()
            self.vm = Proc(['ip', 'netns', 'exec', self.a.ns]
                           + self._qemu(accel))
            self.vm.keep()
            if self._answers(30 if accel == 'kvm' else 180):
                # "#1 SMP PREEMPT_DYNAMIC Debian 6.1.153-1 (2025-09-20)"
                said = re.search(r'Debian (\S+)', self.b.sh('uname', '-v'))
                self.linux = said[1] if said else self.b.sh('uname', '-r')
                self.runs_on = accel
                print(f'guest: Linux {self.linux} on {accel}, up in '
                      f'{time.monotonic() - start:.0f} s', flush=True)
                return
            console = self.console()
            self.vm.end()
        raise Failure(f'the guest does not boot:\n{console}')

    def _answers(self, limit):
        end = time.monotonic() + limit
        while time.monotonic() < end and self.vm.running():
            r = subprocess.run(self.ssh + ['true'], timeout=60,
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            if r.returncode == 0:
                return True
            time.sleep(0.2)
        return False

    def pull_plug(self):
        """Wake everything that waits for the guest."""
        if self.vm and self.vm.running():
            os.killpg(self.vm.pid, signal.SIGKILL)

    def console(self):
        """The end of what the guest's kernel has printed."""
        with open(f'{self.dir}/console', errors='replace') as f:
            return ''.join(f.readlines()[-8:]) + self.vm.describe()

    def _qemu(self, accel):
        off = ''.join(f',{name}=off' for name in OFFLOADS)
        cpu = ['-accel', 'kvm', '-cpu', 'host'] if accel == 'kvm' else [
            '-accel', 'tcg,thread=multi', '-cpu', 'max,la57=off']
        return ['qemu-system-x86_64', '-machine', 'q35'] + cpu + [
            '-smp', '2', '-m', '1024', '-nodefaults', '-no-user-config',
            '-display', 'none', '-no-reboot',
            '-serial', f'file:{self.dir}/console',
            '-kernel', f'{self.cache}/vmlinuz',
            '-initrd', f'{self.cache}/initrd',
            '-append', 'console=ttyS0 quiet panic=-1 mitigations=off '
            'net.ifnames=0 no_timer_check tsc=reliable '
            f'interop.ip4={self.b.ip4}/24 interop.ip6={self.b.ip6}/64 '
            f'interop.mtu={self.mtu}',
            '-netdev', f'tap,id=wire,ifname={TAP},script=no,downscript=no',
            '-device', 'virtio-net-pci,netdev=wire,romfile=,'
            'mac=52:54:00:81:00:02' + off,
            '-netdev', 'user,id=way,restrict=on,ipv6=off,'
            'hostfwd=tcp:127.0.0.1:2222-10.0.2.15:22',
            '-device', 'virtio-net-pci,netdev=way,romfile=',
            '-device', 'virtio-rng-pci']

    def lose(self, percent):
        """Drop packets at random where they arrive, on both sides: those of
        RoCEv2, or of whatever has the link with siw on it."""
        siw = 'siw' in self.b.sh('rdma', 'link')
        code = any_loss(percent) if siw else loss_filter(percent)
        self.lossless()
        for run in (self.a.sh, self.b.sh):
            dev = TAP if run == self.a.sh else 'eth0'
            run('tc', 'qdisc', 'add', 'dev', dev, 'clsact')
            run('tc', 'filter', 'add', 'dev', dev, 'ingress', 'bpf', 'da',
                'bytecode', code)

    def lossless(self):
        self.a.sh('tc', 'qdisc', 'del', 'dev', TAP, 'clsact', check=False)
        self.b.sh('tc', 'qdisc', 'del', 'dev', 'eth0', 'clsact', check=False)

    def _remove(self):
        if self.vm:
            subprocess.run(self.ssh + ['-O', 'exit'],
                           stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            self.vm.end()
        super()._remove()
        shutil.rmtree(self.dir, ignore_errors=True)


def any_loss(percent):
    """Classic BPF for tc: drop `percent` of all but ARP."""
    threshold = int(2 ** 32 * (1 - percent / 100))
    prog = ((0x28, 0, 0, 12),              # EtherType
            (0x15, 2, 0, 0x0806),          # ARP: pass
            (0x20, 0, 0, 0xfffff000 + 56),  # a random number
            (0x35, 1, 0, threshold),       # beyond: drop
            (0x06, 0, 0, 0xffffffff),      # pass
            (0x06, 0, 0, 2))               # drop
    return ','.join([str(len(prog))] + [' '.join(map(str, i)) for i in prog])


def preconditions():
    if os.geteuid() != 0:
        raise Skip('the guest and its network need root')
    if not os.path.exists('/dev/net/tun'):
        raise Skip('no /dev/net/tun')
    if os.uname().machine != 'x86_64':
        raise Skip('the guest is made for x86_64 only')
    for name in ('qemu-system-x86_64', 'ssh', 'ip', 'tc'):
        if not shutil.which(name):
            raise Skip(f'{name} is not installed')


def build(cache, limit):
    """Make the image unless it is there; Skip when it cannot be made."""
    made = Proc([f'{HERE}/guest/build', cache])
    try:
        code = made.wait(min(900, limit))
    except Failure as e:
        raise Skip(f'the guest image takes too long: {e}') from None
    finally:
        if made.text():
            print(made.text().strip(), flush=True)
        made.end()
        for left in glob.glob(f'{cache}/work.*'):
            shutil.rmtree(left, ignore_errors=True)
    if code:
        raise Skip('the guest image cannot be made here')

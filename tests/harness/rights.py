# SPDX-License-Identifier: BSD-2-Clause
"""What the user of a test run may do, and more of it where that can be had.

An ordinary user becomes root of a user namespace where the machine allows
that.  There it makes network namespaces, interfaces and packet sockets; it has
no second UID, and files of others stay out of its reach.
"""

import os
import subprocess
import sys

# Set in the process that unshare(1) has started again, and in its children.
INSIDE = 'URNIC_TEST_NAMESPACE'
UNSHARE = ('unshare', '--user', '--map-root-user', '--mount', '--net')
# Network namespaces have their names below /run, which a user cannot write.
PROBE = ('mount -t tmpfs tmpfs /run && ip link set lo up && '
         'ip netns add probe && ip netns exec probe true')


def quiet(*argv):
    """Did a tool succeed?"""
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def find_tools():
    """ip, tc and ethtool, which are not on every user's PATH."""
    path = os.environ.get('PATH', os.defpath).split(':')
    os.environ['PATH'] = ':'.join(
        path + [d for d in ('/usr/sbin', '/sbin') if d not in path])


def take():
    """Start this program again as root of a user namespace, if this user is
    not root and the machine lets it."""
    find_tools()
    if os.environ.get(INSIDE) == 'entering':
        os.environ[INSIDE] = 'entered'
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs',
                        '/run'], check=True)
    elif os.geteuid() != 0 and quiet(*UNSHARE, 'sh', '-c', PROBE):
        os.environ[INSIDE] = 'entering'
        sys.stdout.flush()
        os.execvp(UNSHARE[0], [*UNSHARE, *sys.argv])


def of_namespace():
    """Is this process root of a user namespace only?"""
    return INSIDE in os.environ


def can_make_namespaces():
    """Network namespaces with names, as ip makes them."""
    name = f'urt{os.getpid()}p'
    if os.geteuid() != 0 or not quiet('ip', 'netns', 'add', name):
        return False
    works = quiet('ip', 'netns', 'exec', name, 'true')
    quiet('ip', 'netns', 'del', name)
    return works


def why_no_namespaces():
    """For messages, where can_make_namespaces() is false."""
    if os.geteuid() == 0:
        return 'root may not make network namespaces here'
    return 'this user may not make namespaces here'

# SPDX-License-Identifier: BSD-2-Clause
"""Open MPI, four ranks on one host that have only urnic between them: by UCX, and by
libfabric. Its list of devices leaves hosts out that have no other address than
loopback's.  Debian's openib was built without rdma_cm, and so refuses Ethernet."""

import shutil

from harness.env import Case, Failure, Skip, built

WAYS = {
    'ucx': ('urnic0', ['--mca', 'pml', 'ucx', '-x', 'UCX_TLS=rc_v,ud_v,self', '-x',
                       'UCX_NET_DEVICES=urnic0:1']),
    'libfabric-urnic0': ('urnic0', ['--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca',
                                    'mtl_ofi_provider_include', 'verbs;ofi_rxm']),
}
WAYS['libfabric-urniw0'] = ('urniw0', WAYS['libfabric-urnic0'][1])


def mpi(device, way):
    def run(env):
        program = shutil.which('mpirun.openmpi')
        if not program:
            raise Skip('needs openmpi-bin')
        text = env.call(env.a, 'env', f'URNIC_DEVICES={device}', program,
                        '--allow-run-as-root', '--oversubscribe', '-np', 4,
                        *way, built(env.urnic, 'mpi_ring'), timeout=60)
        if 'of 4 ranks are right' not in text:
            raise Failure(text)
    return run


CASES = [Case(name, mpi(*way), where='veth') for name, way in WAYS.items()]

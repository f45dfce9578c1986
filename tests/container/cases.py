# SPDX-License-Identifier: BSD-2-Clause
"""The cases of tests/container/run: an ordinary user's, in rootless podman."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import yaml

import schemas

WORK = sys.argv[1]
TOOLS = 'ibverbs-utils perftest rdmacm-utils'
IMAGE, TOOLS_IMAGE, BASE, APP = ('localhost/urnic', 'localhost/urnic-tools',
                                 'localhost/urnic-base', 'localhost/app')
LARGEST = 40 << 20
CONFINED = ['--read-only', '--cap-drop=all', '--security-opt',
            'no-new-privileges']


class Failure(Exception):
    """The text says what is wrong."""


class Skip(Exception):
    """The text says what is missing."""


def sh(*argv, timeout=120, **kw):
    r = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, timeout=timeout, **kw)
    if r.returncode:
        raise Failure(f'{" ".join(map(str, argv))}: exit {r.returncode}\n'
                      f'{r.stdout}')
    return r.stdout


def podman(*argv, **kw):
    return sh('podman', *argv, **kw)


def run(*argv, **kw):
    return podman('run', '--rm', *argv, **kw)


class Background:
    """A container that runs while the block does."""

    def __init__(self, *argv):
        self.name = podman('run', '-d', *argv).split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        podman('rm', '-f', '-t', '0', self.name)

    def text(self):
        return podman('logs', self.name)

    def wait(self):
        """Until it ends; Failure unless well."""
        code = podman('wait', self.name).split()[-1]
        if code != '0':
            raise Failure(f'exit {code}:\n{self.text()}')
        return self.text()


def size(image):
    return int(podman('image', 'inspect', '--format', '{{.Size}}', image)
               .split()[-1])


# The image.

def image_is_small():
    sh('dist/container/build', '--tool', 'podman', '--rootfs',
       f'{WORK}/base.tar', f'{WORK}/debs', IMAGE)
    above = size(IMAGE) - size(BASE)
    print(f'  {above / 2**20:.1f} MiB above the base')
    if not 1 << 20 < above < LARGEST:
        raise Failure(f'{above} bytes above the base')


def tools_image():
    sh('dist/container/build', '--tool', 'podman', '--base', BASE, '--extra',
       TOOLS, f'{WORK}/debs', TOOLS_IMAGE)
    file = f'{WORK}/tmp/Containerfile'
    with open(file, 'w', encoding='ascii') as f:
        f.write(f'FROM {BASE}\nRUN apt-get -q -y --no-install-recommends '
                f'-o APT::Sandbox::User=root install {TOOLS}\n')
    podman('build', '--isolation=chroot', '--pull=never', '-t', APP, '-f',
           file, f'{WORK}/tmp')


def by_buildah():
    """The other tool, into a store of its own."""
    sh('dist/container/build', '--tool', 'buildah', '--rootfs',
       f'{WORK}/base.tar', f'{WORK}/debs', 'localhost/by-buildah')
    text = run('--network=none', *CONFINED, 'localhost/by-buildah')
    if 'urnic0' not in text:
        raise Failure(text)


def is_confined():
    """What the containers of these cases may not."""
    text = run('--network=none', *CONFINED, '--user', '1000', '--entrypoint',
               'sh', IMAGE, '-c', 'cat /proc/self/status; touch /usr/x 2>&1; '
               'ls -d /dev/infiniband /sys/class/infiniband; true')
    for want in ('CapEff:\t0000000000000000', 'CapBnd:\t0000000000000000',
                 'NoNewPrivs:\t1', 'Seccomp:\t2', 'Read-only file system'):
        if want not in text:
            raise Failure(f'no "{want}" in:\n{text}')
    if re.search('^/', text, re.M):
        raise Failure(f'has a device:\n{text}')


def lists_devices():
    text = run('--network=none', *CONFINED, '--user', '1000', IMAGE)
    if 'urnic0' not in text or 'urniw0' not in text:
        raise Failure(text)


# Two containers.

def network(name):
    if subprocess.run(['podman', 'network', 'exists', name]).returncode:
        podman('network', 'create', name)
    return ['--network', name]


def compose_file():
    """Its two services, on a network of their own, by podman-compose."""
    compose = ['podman-compose', '-f', 'dist/container/compose.yaml']
    sh(*compose, 'up', '-d')
    try:
        code = podman('wait', 'container_client_1').split()[-1]
        text = podman('logs', 'container_client_1')
        if code != '0' or not re.search(r'^ 65536 +1000 ', text, re.M):
            raise Failure(f'exit {code}:\n{text}')
        told = json.loads(podman('inspect', 'container_server_1'))[0]
        host = told['HostConfig']
        if not host['ReadonlyRootfs'] or told['EffectiveCaps'] or \
                told['Config']['User'] != '1000:1000':
            raise Failure(f'{told}')
    finally:
        sh(*compose, 'down', '-t', '0')


def until(argv, again):
    """Repeat a client whose server may not listen yet."""
    end = time.monotonic() + 30
    while True:
        try:
            return run(*argv)
        except Failure as e:
            if time.monotonic() > end or not re.search(again, str(e)):
                raise
            time.sleep(0.2)


NOT_YET = 'REJECTED|UNREACHABLE|Couldn.t connect|refused'


def rping_pair(server, client, address):
    rping = ['-C', '20', '-v']
    with Background(*server, TOOLS_IMAGE, 'run', '--', 'rping', '-s',
                    *rping) as s:
        text = until([*client, TOOLS_IMAGE, 'run', '--', 'rping', '-c', '-a',
                      address(s), *rping], NOT_YET)
        s.wait()
    if text.count('ping data') != 20:
        raise Failure(text)


def address_of(container):
    text = podman('inspect', '--format', '{{range .NetworkSettings.Networks}}'
                  '{{.IPAddress}} {{end}}', container.name)
    return re.search(r'\d+(\.\d+){3}', text)[0]


def rping_two_networks():
    """By an address, and librdmacm, each as another user."""
    net = network('one')
    rping_pair([*net, *CONFINED, '--user', '1000'],
               [*net, *CONFINED, '--user', '1001'], address_of)


def shared_network():
    """Containers of a pod: one network namespace, two users, one urnicd."""
    net = network('one')
    with Background(*net, *CONFINED, '--entrypoint', 'sleep', IMAGE,
                    '600') as pod:
        join = ['--network', f'container:{pod.name}', '-e', 'URNIC_USERS=all',
                *CONFINED]
        rping_pair([*join, '--user', '1000'], [*join, '--user', '1001'],
                   lambda s: address_of(pod))
        bw = ['run', '--', 'ib_write_bw', '-d', 'urnic0', '-n', '500']
        with Background(*join, '--user', '1000', TOOLS_IMAGE, *bw) as s:
            text = until([*join, '--user', '1001', TOOLS_IMAGE, *bw,
                          address_of(pod)], NOT_YET)
            s.wait()
        if not re.search(r'^ 65536 +500 ', text, re.M):
            raise Failure(text)


def refused_user():
    """Without URNIC_USERS the second user is told whose urnicd that is."""
    net = network('one')
    rping = [TOOLS_IMAGE, 'run', '--', 'rping', '-a']
    with Background(*net, *CONFINED, '--user', '1000', *rping, '0.0.0.0',
                    '-s') as first:
        end = time.monotonic() + 20
        while 'rping' not in podman('exec', first.name, 'urnic', 'show'):
            if time.monotonic() > end:
                raise Failure(first.text())
            time.sleep(0.1)
        r = subprocess.run(
            ['podman', 'run', '--rm', '--network', f'container:{first.name}',
             *CONFINED, '--user', '1001', *rping, '127.0.0.1', '-c', '-C', '1'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60)
        if r.returncode == 0 or '1000' not in r.stderr:
            raise Failure(f'exit {r.returncode}\n{r.stdout}{r.stderr}')


# Kubernetes.

def pod():
    with open('dist/kubernetes/pod.yaml', encoding='utf-8') as f:
        return yaml.safe_load(f)


def pod_options(spec, container):
    user = spec['securityContext']
    out = ['--user', f'{user["runAsUser"]}:{user["runAsGroup"]}']
    secure = container['securityContext']
    if not secure['allowPrivilegeEscalation']:
        out += ['--security-opt', 'no-new-privileges']
    if secure['readOnlyRootFilesystem']:
        # The kubelet gives no tmpfs, podman would.
        out += ['--read-only', '--read-only-tmpfs=false']
    out += [f'--cap-drop={c}' for c in secure['capabilities']['drop']]
    for m in container['volumeMounts']:
        ro = ',ro' if m.get('readOnly') else ''
        out += ['-v', f'{m["name"]}:{m["mountPath"]}:U{ro}']
    for e in container.get('env', []):
        out += ['-e', f'{e["name"]}={e["value"]}']
    return out


def pod_of_another_image():
    """The init container, then the other, in one network namespace."""
    spec = pod()['spec']
    net = network('one')
    with Background(*net, *CONFINED, '--entrypoint', 'sleep', BASE,
                    '600') as holder:
        join = ['--network', f'container:{holder.name}']
        for c in spec['initContainers']:
            run(*join, *pod_options(spec, c), '--entrypoint',
                json.dumps(c['command']), c['image'])
        app = spec['containers'][0]
        o = [*join, *pod_options(spec, app)]
        text = run(*o, app['image'], *app['command'])
        if 'PORT_ACTIVE' not in text:
            raise Failure(text)
        bw = [app['image'], 'ib_write_bw', '-d', 'urnic0', '-n', '500']
        with Background(*o, *bw) as s:
            text = until([*o, *bw, address_of(holder)], NOT_YET)
            s.wait()
        if not re.search(r'^ 65536 +500 ', text, re.M):
            raise Failure(text)
    podman('volume', 'rm', 'urnic')


def needs_kubectl():
    """Debian has none that is new enough."""
    if not shutil.which('kubectl'):
        raise Skip('no kubectl')


def component():
    """What kustomize makes of a chart's Deployment; that it is a valid one."""
    needs_kubectl()
    with open(f'{WORK}/tmp/all.yaml', 'w', encoding='ascii') as f:
        yaml.safe_dump(schemas.CHART, f)
    with open(f'{WORK}/tmp/kustomization.yaml', 'w', encoding='ascii') as f:
        f.write('resources: [all.yaml]\ncomponents: [component]\n')
    sh('cp', '-r', 'dist/kubernetes/component', f'{WORK}/tmp')
    made = list(yaml.safe_load_all(sh('kubectl', 'kustomize', f'{WORK}/tmp')))
    for doc in made:
        schemas.check(doc)
    spec = [d for d in made if d['kind'] == 'Deployment'][0]['spec'][
        'template']['spec']
    config = [d for d in made if d['kind'] == 'ConfigMap'][0]
    want = {e['name']: e['value'] for e in pod()['spec']['containers'][0][
        'env']}
    ref = spec['containers'][0]['envFrom'][0]['configMapRef']['name']
    if config['data'] != want or ref != config['metadata']['name']:
        raise Failure(f'{made}')
    if spec['initContainers'][0]['command'] != ['urnic-drop', '/urnic'] or \
            spec['containers'][0]['resources']['limits']['rdma/hca'] != 1:
        raise Failure(f'{made}')


def advertised():
    """The patch, applied by kubectl to a node in a file."""
    needs_kubectl()
    patch = sh('dist/kubernetes/advertise', '--print').strip()
    with open(f'{WORK}/tmp/node.yaml', 'w', encoding='ascii') as f:
        yaml.safe_dump(schemas.NODE, f)
    node = json.loads(sh('kubectl', 'patch', '--local', '-f',
                         f'{WORK}/tmp/node.yaml', '--type=json', '-p', patch,
                         '-o', 'json'))
    if node['status']['capacity'].get('rdma/hca') != '1000' or \
            node['status']['capacity']['cpu'] != '8':
        raise Failure(f'{node}')


def manifests():
    schemas.check(pod())
    for wrong in schemas.wrong(pod()):
        try:
            schemas.check(wrong)
        except schemas.Invalid:
            continue
        raise Failure(f'the schema accepts {wrong}')


# CI.

def github_action():
    """Its step, as a runner would start it, in a container with nothing."""
    with open('dist/ci/github/action.yml', encoding='utf-8') as f:
        action = yaml.safe_load(f)
    steps = action['runs']['steps']
    env = {'GITHUB_ACTION_PATH': '/tree/dist/ci/github',
           'RUNNER_TEMP': '/tmp', 'GITHUB_ENV': '/tmp/github.env'}
    values = {'source': '/debs', 'all-steps': 'true', 'sha256': ''}
    if set(values) != set(action['inputs']):
        raise Failure(f'inputs {set(action["inputs"])}')
    for step in steps:
        for name, value in step['env'].items():
            key = re.fullmatch(r'\$\{\{ inputs\.(\S+) \}\}', value)[1]
            env[name] = values[key]
    script = '\n'.join(s['run'] for s in steps)
    # Later steps have the environment of GITHUB_ENV.
    script += (f'\napt-get -q -y --no-install-recommends install {TOOLS}\n'
               'env $(cat /tmp/github.env) ibv_devinfo -d urnic0\n')
    o = [x for name, value in env.items() for x in ('-e', f'{name}={value}')]
    text = run('--network=none', *o, '-v', f'{WORK}/tree:/tree:ro', '-v',
               f'{WORK}/debs:/debs:ro', BASE, 'bash', '-c', script)
    if 'PORT_ACTIVE' not in text and 'urnic0' not in text:
        raise Failure(text)


def gitlab_template():
    """The form of it; tests/container/run executes it."""
    with open('dist/ci/gitlab.yml', encoding='utf-8') as f:
        job = yaml.safe_load(f)['.urnic']
    lines = job['before_script']
    if not all(isinstance(line, str) for line in lines):
        raise Failure(f'lines that are no text: {lines}')
    if set(job['variables']) != {'URNIC_SOURCE', 'URNIC_SHA256'}:
        raise Failure(f'{job["variables"]}')
    sh('bash', '-n', '-c', '\n'.join(lines))


def main():
    cases = [('image', image_is_small), ('image with tools', tools_image),
             ('image by buildah', by_buildah),
             ('confined', is_confined), ('devices', lists_devices),
             ('compose file, two networks', compose_file),
             ('rping, two networks', rping_two_networks),
             ('one network, two users', shared_network),
             ('one network, a user that is not let in', refused_user),
             ('Kubernetes: manifests', manifests),
             ('Kubernetes: pod', pod_of_another_image),
             ('Kubernetes: component', component),
             ('Kubernetes: rdma/hca', advertised),
             ('GitHub action', github_action),
             ('GitLab template', gitlab_template)]
    failed = skipped = 0
    for name, fn in cases:
        start = time.monotonic()
        try:
            fn()
            verdict = 'passed'
        except Skip as e:
            skipped += 1
            verdict = f'skipped: {e}'
        except (Failure, schemas.Invalid, subprocess.TimeoutExpired, OSError,
                LookupError, TypeError, ValueError) as e:
            failed += 1
            verdict = f'FAILED: {type(e).__name__} {e}'
        print(f'{name}, {time.monotonic() - start:.0f} s: {verdict}',
              flush=True)
    with open(f'{WORK}/tmp/tally', 'w', encoding='ascii') as f:
        f.write(f'{len(cases) - failed - skipped} {failed} {skipped}\n')
    print(f'{len(cases) - failed - skipped} passed, {failed} failed, '
          f'{skipped} skipped')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())

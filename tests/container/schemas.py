# SPDX-License-Identifier: BSD-2-Clause
"""Schemas for the parts of Kubernetes' API that dist/kubernetes uses, written
after its reference.  They are closed: a key that is not here, so a misspelt one,
is an error.  They do not replace the API server's checks."""

import copy

import jsonschema


class Invalid(Exception):
    """Why a document is none."""


def closed(required=(), **properties):
    return {'type': 'object', 'additionalProperties': False,
            'required': list(required), 'properties': properties}


def listed(items, **more):
    return dict({'type': 'array', 'items': items}, **more)


TEXT = {'type': 'string'}
NAME = {'type': 'string', 'pattern': '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'}
FLAG = {'type': 'boolean'}
NUMBER = {'type': 'integer', 'minimum': 0}
QUANTITY = {'type': ['string', 'integer'],
            'pattern': '^[0-9]+(m|[kMGT]i?)?$'}
MAP = {'type': 'object', 'additionalProperties': TEXT}
SECCOMP = closed(['type'], type={'enum': ['RuntimeDefault', 'Unconfined',
                                          'Localhost']})
USERS = {'runAsUser': NUMBER, 'runAsGroup': NUMBER, 'runAsNonRoot': FLAG,
         'seccompProfile': SECCOMP}
CONTAINER = closed(
    ['name', 'image'], name=NAME, image=TEXT, command=listed(TEXT),
    args=listed(TEXT),
    env=listed(closed(['name'], name=TEXT, value=TEXT)),
    envFrom=listed(closed(['configMapRef'],
                          configMapRef=closed(['name'], name=NAME))),
    resources=closed(
        limits={'type': 'object', 'additionalProperties': QUANTITY},
        requests={'type': 'object', 'additionalProperties': QUANTITY}),
    volumeMounts=listed(closed(
        ['name', 'mountPath'], name=NAME, readOnly=FLAG,
        mountPath={'type': 'string', 'pattern': '^/'})),
    securityContext=closed(
        allowPrivilegeEscalation=FLAG, readOnlyRootFilesystem=FLAG,
        capabilities=closed(add=listed(TEXT), drop=listed(TEXT)), **USERS))
SPEC = closed(
    ['containers'], containers=listed(CONTAINER, minItems=1),
    initContainers=listed(CONTAINER),
    restartPolicy={'enum': ['Always', 'OnFailure', 'Never']},
    hostNetwork=FLAG, securityContext=closed(fsGroup=NUMBER, **USERS),
    volumes=listed(closed(
        ['name'], name=NAME,
        emptyDir=closed(sizeLimit=QUANTITY, medium=TEXT))))
META = closed(name=NAME, namespace=NAME, labels=MAP, annotations=MAP)


def document(version, kind, **more):
    return closed(['apiVersion', 'kind', 'metadata', *more],
                  apiVersion={'const': version}, kind={'const': kind},
                  metadata=META, **more)


DOCUMENTS = {
    'Pod': document('v1', 'Pod', spec=SPEC),
    'ConfigMap': document('v1', 'ConfigMap', data=MAP),
    'Deployment': document('apps/v1', 'Deployment', spec=closed(
        ['selector', 'template'], replicas=NUMBER,
        selector=closed(['matchLabels'], matchLabels=MAP),
        template=closed(['metadata', 'spec'], metadata=META, spec=SPEC))),
}

# A Deployment as a chart makes it that expects a device plugin.
CHART = {
    'apiVersion': 'apps/v1', 'kind': 'Deployment',
    'metadata': {'name': 'chart', 'labels': {'urnic': 'yes'}},
    'spec': {
        'selector': {'matchLabels': {'app': 'chart'}},
        'template': {
            'metadata': {'labels': {'app': 'chart'}},
            'spec': {'volumes': [], 'containers': [{
                'name': 'app', 'image': 'localhost/app', 'volumeMounts': [],
                'resources': {'limits': {'rdma/hca': 1}}}]}}}}
NODE = {
    'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'node'},
    'status': {'capacity': {'cpu': '8', 'memory': '16Gi'}}}


def mounts(spec):
    return [m['name'] for c in spec['containers'] +
            spec.get('initContainers', []) for m in c.get('volumeMounts', [])]


def check(doc):
    try:
        jsonschema.validate(doc, DOCUMENTS[doc['kind']])
    except jsonschema.ValidationError as e:
        raise Invalid(f'{list(e.absolute_path)}: {e.message}') from None
    spec = doc.get('spec', {})
    spec = spec.get('template', {}).get('spec', spec)
    volumes = [v['name'] for v in spec.get('volumes', [])]
    for name in mounts(spec) if spec else []:
        if name not in volumes:
            raise Invalid(f'a volumeMount of "{name}", which is no volume')


def wrong(pod):
    """Pods with one mistake each."""
    def changed(change):
        doc = copy.deepcopy(pod)
        change(doc['spec'])
        return doc
    yield changed(lambda s: s.pop('containers'))
    yield changed(lambda s: s['volumes'][0].update(name='other'))
    yield changed(lambda s: s['volumes'][0].update(emptydir={}))
    yield changed(lambda s: s['containers'][0].update(volumeMount=[]))
    yield changed(lambda s: s['containers'][0]['env'][0].update(value=1))
    yield changed(lambda s: s['containers'][0]['securityContext'].update(
        readOnlyRootFilesystem='yes'))

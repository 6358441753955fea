"""RBAC on one store: the index of roles and bindings follows the store's own changes.

A write to a role or a binding is in the index before its writer is answered, so that the very next request is judged by
it. What may not be done is the answer when nothing says yes; members of system:masters are not asked about.
"""

from __future__ import annotations

import logging
from functools import partial

from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.documents.access.policy import AccessPolicy
from tonnage.objects.document import decode
from tonnage.objects.resources import BY_PLURAL, RBAC, Resource
from tonnage.store import Store, StoreRecord

ROLES, CLUSTER_ROLES = BY_PLURAL[RBAC, "roles"], BY_PLURAL[RBAC, "clusterroles"]
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = BY_PLURAL[RBAC, "rolebindings"], BY_PLURAL[RBAC, "clusterrolebindings"]
_MASTER = AccessDecision(True)
_log = logging.getLogger(__name__)


class RbacAuthorizer:
    """Judges by the roles and bindings of one store."""

    def __init__(self, store: Store) -> None:
        self.policy = AccessPolicy()
        for resource in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            follow = partial(self._changed, resource)
            for record in store.follow(resource.store_prefix, follow):
                follow(record, is_deleted=False)

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return _MASTER if attributes.user.is_master else self.policy.authorize(attributes)

    def _changed(self, resource: Resource, record: StoreRecord, *, is_deleted: bool) -> None:
        is_binding = resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)
        put, drop = self.policy.put_role, self.policy.drop_role
        if is_binding:
            put, drop = self.policy.put_binding, self.policy.drop_binding
        try:
            if not is_deleted:
                put(decode(record.document))
                return
        except Exception:  # what nobody should have let in gives no rights, and does not stop the store
            _log.exception("%s gives no rights: it cannot be read", record.key)
        namespace, _, name = record.key.removeprefix(resource.store_prefix).rpartition("/")
        drop(namespace, name)

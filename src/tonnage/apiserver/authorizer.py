"""Authorization: RBAC on one store.

The index of roles and bindings follows the store: a write is in the index before its writer is answered, so the very
next request is judged by it. Members of system:masters may do everything. Roles and bindings are read on the loop: a
thread asks the loop for each part.
"""

from __future__ import annotations

import logging
from functools import partial

from tonnage.apiserver import event_loop
from tonnage.documents.access import policy
from tonnage.documents.access.attributes import AccessDecision, Attributes
from tonnage.documents.access.rules import RuleIndex
from tonnage.objects.document import decode
from tonnage.objects.resources import BY_PLURAL, RBAC, Resource
from tonnage.objects.users import User
from tonnage.store.records import StoreRecord
from tonnage.store.store import Store

ROLES, CLUSTER_ROLES = BY_PLURAL[RBAC, "roles"], BY_PLURAL[RBAC, "clusterroles"]
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = BY_PLURAL[RBAC, "rolebindings"], BY_PLURAL[RBAC, "clusterrolebindings"]
_MASTER = AccessDecision(True)
_log = logging.getLogger(__name__)


class RbacAuthorizer:
    def __init__(self, store: Store) -> None:
        self.policy = policy.AccessPolicy()
        for resource in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            follow = partial(self._changed, resource)
            for record in store.follow(resource.store_prefix, follow):
                follow(record, is_deleted=False)

    def authorize(self, attributes: Attributes) -> AccessDecision:
        return _MASTER if attributes.user.is_master else event_loop.on_loop(lambda: self.policy.authorize(attributes))

    def sheet(self, user: User, namespace: str) -> policy.Sheet:
        return event_loop.on_loop(lambda: self.policy.sheet(user, namespace))

    def rules_of(self, role: policy.RoleRef, namespace: str) -> RuleIndex:
        return event_loop.on_loop(lambda: self.policy.rules_of(role, namespace))

    def _changed(self, resource: Resource, record: StoreRecord, *, is_deleted: bool) -> None:
        put, drop = self.policy.put_role, self.policy.drop_role
        if resource in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            put, drop = self.policy.put_binding, self.policy.drop_binding
        try:
            if not is_deleted:
                put(decode(record.document))
                return
        except Exception:  # an invalid object grants no rights, and does not stop the store
            _log.exception("%s gives no rights: it cannot be read", record.key)
        namespace, _, name = record.key.removeprefix(resource.store_prefix).rpartition("/")
        drop(namespace, name)

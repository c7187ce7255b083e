"""Which function does which operation."""

from __future__ import annotations

from collections.abc import Callable

from parapet.local_mturk import assignments, hits, qualifications
from parapet.local_mturk.errors import MTurkError
from parapet.local_mturk.listing import Answer, Params
from parapet.local_mturk.model import check, operations
from parapet.local_mturk.store import Store

_DONE_HERE: dict[str, Callable[[Store, Params], Answer]] = {
    "ApproveAssignment": assignments.approve_assignment,
    "AssociateQualificationWithWorker": qualifications.associate_qualification,
    "CreateAdditionalAssignmentsForHIT": hits.create_additional_assignments,
    "CreateHIT": hits.create_hit,
    "CreateHITType": hits.create_hit_type,
    "CreateHITWithHITType": hits.create_hit_with_hit_type,
    "CreateQualificationType": qualifications.create_qualification_type,
    "CreateWorkerBlock": qualifications.create_worker_block,
    "DeleteHIT": hits.delete_hit,
    "DeleteQualificationType": qualifications.delete_qualification_type,
    "DeleteWorkerBlock": qualifications.delete_worker_block,
    "DisassociateQualificationFromWorker": qualifications.disassociate_qualification,
    "GetAccountBalance": hits.get_account_balance,
    "GetAssignment": assignments.get_assignment,
    "GetHIT": hits.get_hit,
    "GetQualificationScore": qualifications.get_qualification_score,
    "GetQualificationType": qualifications.get_qualification_type,
    "ListAssignmentsForHIT": assignments.list_assignments,
    "ListBonusPayments": assignments.list_bonus_payments,
    "ListHITs": hits.list_hits,
    "ListHITsForQualificationType": hits.list_hits_for_qualification_type,
    "ListQualificationTypes": qualifications.list_qualification_types,
    "ListReviewableHITs": hits.list_reviewable_hits,
    "ListWorkerBlocks": qualifications.list_worker_blocks,
    "ListWorkersWithQualificationType": qualifications.list_workers_with_qualification,
    "NotifyWorkers": qualifications.notify_workers,
    "RejectAssignment": assignments.reject_assignment,
    "SendBonus": assignments.send_bonus,
    "UpdateExpirationForHIT": hits.update_expiration,
    "UpdateHITReviewStatus": hits.update_review_status,
    "UpdateQualificationType": qualifications.update_qualification_type,
}


def checked(operation: str, params: Params) -> Params:
    """The request without the members that say null. Raises MTurkError where the service model forbids it."""
    if operation not in operations():
        raise MTurkError(f"Unknown operation {operation[:100]}.", code="UnknownOperationException")
    check(operation, params)
    return {name: value for name, value in params.items() if value is not None}


def perform(store: Store, operation: str, params: Params) -> Answer:
    """Does a checked request, inside a transaction. Raises MTurkError where MTurk would refuse."""
    done = _DONE_HERE.get(operation)
    if done is None:
        raise MTurkError(f"The local MTurk does not have {operation}.", code="UnknownOperationException")
    assignments.pass_time(store)
    return done(store, params)

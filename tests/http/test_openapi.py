"""The OpenAPI document: requests that schemathesis makes from it get the answers that it describes."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests.http.serving import TOKEN, service
from tests.tiers import examples

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("described")
    (folder / "tokens").write_text(f"anna:{TOKEN}\n")
    with service(folder, "--tokens", folder / "tokens") as one:
        yield schemathesis.openapi.from_url(f"{one.address}openapi.json")


EXCLUDED = [ignored_auth, positive_data_acceptance]
"""Each wrong token takes half a second, and the service checks more than a schema can describe."""
schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@examples(3, derandomize=True, suppress_health_check=[*HealthCheck])
def test_answers_are_those_of_the_document(case: Any) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=EXCLUDED)

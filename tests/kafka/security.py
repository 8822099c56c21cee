"""The second listener of the broker: TLS, and a name and a password or a token."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion

USER, PASSWORD = "osr", "correct-horse-battery"


class Security:
    """Certificates in a folder, and what the broker has to be told of them."""

    def __init__(self, folder: Path, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._store = folder / "broker.pem"
        self.authority, self.other_authority = folder / "authority.pem", folder / "other.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.authority)
        trustme.CA().cert_pem.write_to_path(self.other_authority)
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # the only form that Kafka reads
        self._store.write_bytes(text + b"".join(each.bytes() for each in certificate.cert_chain_pems))

    def properties(self, plain: int, controller: int) -> str:
        """Say it in the broker's words, beside the listeners that it has."""
        listener = "listener.name.secure"
        modules = {
            "scram-sha-512": "scram.ScramLoginModule required;",
            "plain": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
        }
        named = f"PLAINTEXT://127.0.0.1:{plain},SECURE://{self.address}"
        return "\n".join(
            [
                f"listeners={named},CONTROLLER://127.0.0.1:{controller}",
                f"advertised.listeners={named}",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
                f"{listener}.ssl.keystore.type=PEM",
                f"{listener}.ssl.keystore.location={self._store}",
                f"{listener}.sasl.enabled.mechanisms={','.join(name.upper() for name in modules)}",
                *(
                    f"{listener}.{name}.sasl.jaas.config=org.apache.kafka.common.security.{module}"
                    for name, module in modules.items()
                ),
                "",
            ]
        )


def add_user(address: str) -> None:
    """Tell the broker of a user for SCRAM."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, "SCRAM-SHA-512", PASSWORD)])
    admin.close()


def token() -> str:
    """A token without a signature, which Kafka's own check accepts; good for an hour."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now, "exp": now + 3600})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join([*coded, ""])

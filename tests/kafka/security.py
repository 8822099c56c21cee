"""More listeners of the broker: TLS with a password, a token or a certificate of the client; one for rights."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion

USER, PASSWORD, KEY_PASSWORD = "osr", "correct-horse-battery", "staple-of-the-key"
REAUTH_SECONDS = 5
"""A connection by SCRAM-SHA-256 has to log in again within this time; others keep a password that was changed."""

GUARDED_USER, OTHER_USER = "guarded", "somebody-else"
"""Of the listener without TLS: whoever comes to it has the rights that ACLs give; the tests themselves may do all."""


class Security:
    """Certificates in a folder, and what the broker has to be told of them."""

    def __init__(self, folder: Path, port: int, certified: int, guarded: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.certified = f"127.0.0.1:{certified}"
        self.guarded = f"127.0.0.1:{guarded}"
        self._store = folder / "broker.pem"
        self.authority, self.other_authority = folder / "authority.pem", folder / "other.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.authority)
        trustme.CA().cert_pem.write_to_path(self.other_authority)
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        text = _key(certificate, NoEncryption())  # PKCS 8 is the only form that Kafka reads
        self._store.write_bytes(text + b"".join(each.bytes() for each in certificate.cert_chain_pems))
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        own = authority.issue_cert("osr@localhost")
        own.cert_chain_pems[0].write_to_path(self.certificate)
        self.key.write_bytes(_key(own, BestAvailableEncryption(KEY_PASSWORD.encode())))

    def properties(self, plain: int, controller: int) -> str:
        """Say it in the broker's words, beside the listeners that it has."""
        listener = "listener.name.secure"
        modules = {
            "scram-sha-256": "scram.ScramLoginModule required;",
            "scram-sha-512": "scram.ScramLoginModule required;",
            "plain": f'plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
        }
        named = (
            f"PLAINTEXT://127.0.0.1:{plain},SECURE://{self.address},CERTIFIED://{self.certified},"
            f"GUARDED://{self.guarded}"
        )
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CERTIFIED:SSL,GUARDED:SASL_PLAINTEXT"
        plain_login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return "\n".join(
            [
                f"listeners={named},CONTROLLER://127.0.0.1:{controller}",
                f"advertised.listeners={named}",
                f"listener.security.protocol.map={protocols}",
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "allow.everyone.if.no.acl.found=true",
                "super.users=User:ANONYMOUS",
                "listener.name.guarded.sasl.enabled.mechanisms=PLAIN",
                f'listener.name.guarded.plain.sasl.jaas.config={plain_login} user_{GUARDED_USER}="{PASSWORD}";',
                f"{listener}.scram-sha-256.connections.max.reauth.ms={1000 * REAUTH_SECONDS}",
                "ssl.keystore.type=PEM",
                f"ssl.keystore.location={self._store}",
                "listener.name.certified.ssl.client.auth=required",
                "listener.name.certified.ssl.truststore.type=PEM",
                f"listener.name.certified.ssl.truststore.location={self.authority}",
                f"{listener}.sasl.enabled.mechanisms={','.join(name.upper() for name in modules)}",
                *(
                    f"{listener}.{name}.sasl.jaas.config=org.apache.kafka.common.security.{module}"
                    for name, module in modules.items()
                ),
                "",
            ]
        )


def _key(certificate: trustme.LeafCert, encryption: KeySerializationEncryption) -> bytes:
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def add_user(address: str, user: str = USER, password: str = PASSWORD) -> None:
    """Tell the broker of a user for SCRAM, or of another password."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    for way in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # one at a time: a user may be named but once in a request
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, way, password)])
    admin.close()


def token() -> str:
    """A token without a signature, which Kafka's own check accepts; good for an hour."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": USER, "iat": now, "exp": now + 3600})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join([*coded, ""])

"""More listeners of the broker: TLS with a password, a token or a certificate of the client; one for rights."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from kafka import KafkaAdminClient
from kafka.admin import UserScramCredentialUpsertion

USER, PASSWORD, KEY_PASSWORD = "osr", "correct-horse-battery", "staple-of-the-key"
REAUTH_SECONDS = 5
"""A connection by SCRAM-SHA-256 has to log in again within this time; others keep a password that was changed."""

GUARDED_USER, OTHER_USER = "guarded", "somebody-else"
"""Users of the listener without TLS, where ACLs decide the rights; on the other listeners everything is allowed."""


LOGIN = "org.apache.kafka.common.security"
PROPERTIES = Path(__file__).parent / "broker" / "security.properties"
"""The settings that are the same for every broker."""


class Security:
    """Certificates in a folder, and the settings of the broker for them."""

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
        text = _key(certificate, serialization.NoEncryption())  # PKCS 8 is the only form that Kafka reads
        self._store.write_bytes(text + b"".join(each.bytes() for each in certificate.cert_chain_pems))
        self.certificate, self.key = folder / "client.pem", folder / "client.key"
        own = authority.issue_cert("osr@localhost")
        own.cert_chain_pems[0].write_to_path(self.certificate)
        self.key.write_bytes(_key(own, serialization.BestAvailableEncryption(KEY_PASSWORD.encode())))

    def properties(self, plain: int, controller: int) -> str:
        """Settings of the broker: its listeners, and who may do what."""
        secure, plain_login = "listener.name.secure", f"{LOGIN}.plain.PlainLoginModule required"
        named = f"PLAINTEXT://127.0.0.1:{plain},SECURE://{self.address}"
        named += f",CERTIFIED://{self.certified},GUARDED://{self.guarded}"
        lines = [
            f"listeners={named},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners={named}",
            f"ssl.keystore.location={self._store}",
            f"listener.name.certified.ssl.truststore.location={self.authority}",
            f'listener.name.guarded.plain.sasl.jaas.config={plain_login} user_{GUARDED_USER}="{PASSWORD}";',
            f'{secure}.plain.sasl.jaas.config={plain_login} user_{USER}="{PASSWORD}";',
            f"{secure}.scram-sha-256.connections.max.reauth.ms={1000 * REAUTH_SECONDS}",
        ]
        return "\n".join([PROPERTIES.read_text(), *lines, ""])


def _key(certificate: trustme.LeafCert, encryption: serialization.KeySerializationEncryption) -> bytes:
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def add_user(address: str, user: str = USER, password: str = PASSWORD) -> None:
    """Create a user for SCRAM on the broker, or change its password."""
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

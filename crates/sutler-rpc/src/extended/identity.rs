//! Owners and proofs.

use sutler_provider::{Owner, Proof};

use super::required;
use crate::{malformed::Malformed, pb::extended as pb};

impl From<Owner> for pb::Owner {
    fn from(owner: Owner) -> Self {
        let Owner { token, installation, namespace, name } = owner;
        Self { token: token.to_string(), installation, namespace, name }
    }
}

impl TryFrom<pb::Owner> for Owner {
    type Error = Malformed;

    fn try_from(owner: pb::Owner) -> Result<Self, Malformed> {
        let pb::Owner { token, installation, namespace, name } = owner;
        let token = token.parse().map_err(|error: sutler_provider::identity::TokenError| {
            Malformed::new("owner.token", error.to_string())
        })?;
        Ok(Self { token, installation, namespace, name })
    }
}

impl From<Proof> for pb::Proof {
    fn from(proof: Proof) -> Self {
        let Proof { owner, name } = proof;
        Self { owner: Some(owner.into()), name }
    }
}

impl TryFrom<pb::Proof> for Proof {
    type Error = Malformed;

    fn try_from(proof: pb::Proof) -> Result<Self, Malformed> {
        let pb::Proof { owner, name } = proof;
        Ok(Self { owner: required("proof.owner", owner)?.try_into()?, name })
    }
}

/// The proof that every change needs.
pub(crate) fn proof(proof: Option<pb::Proof>) -> Result<Proof, Malformed> {
    required("proof", proof)?.try_into()
}

//! The machine part of an open activation in the file: how far its calls have come, what they recorded,
//! the turns of its model, and the activations of other roles that it called. It is one text of three
//! parts with dots between them: the number of the format, the CRC-32 of the bytes in hexadecimal digits,
//! and the bytes in base64, which are encoded as snapshots are.
//!
//! It refers to messages by their positions in a list beside it, so that the messages can be edited.
//! The bytes may come from a stranger: the memory that they take is limited here, and the core
//! validates what they contain.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use strata_base::codec::{self, CodecError};
use strata_core::record::id::RoleId;
use strata_core::record::work::ActivationKey;
use strata_core::state::activation::{Activation, for_each_message_ref};
use strata_core::state::environment::RoleState;
use strata_core::state::messages::MessageRef;

/// The number of the format. It stays 1 until the first release.
const FORMAT: &str = "1";

/// How much more memory than they take in the file all machine parts of a file may take once they are
/// decompressed. What would take more is not compressed.
const MAX_EXCESS_BYTES: u64 = 4 << 20;

/// How many bytes of all machine parts of a file may be anything but texts. A tool call has about fifty
/// of these.
const MAX_STRUCTURE_BYTES: usize = 64 << 20;

/// What the bytes contain.
#[derive(Serialize, Deserialize)]
struct MachinePart {
    /// The role that handles mail.
    role: RoleId,
    activation: Activation,
    /// The activations of other roles that it led to.
    called: BTreeMap<ActivationKey, Activation>,
}

impl MachinePart {
    fn for_each_message_ref(&mut self, visit: &mut dyn FnMut(&mut MessageRef)) {
        for_each_message_ref(&mut self.activation, visit);
        for called in self.called.values_mut() {
            for_each_message_ref(called, visit);
        }
    }
}

/// The machine part of a role's activation, as it is written.
pub(super) struct EncodedPart {
    pub(super) text: String,
    /// The messages that it refers to, each once.
    pub(super) messages: Vec<MessageRef>,
}

/// Writes the machine parts of a file.
pub(super) struct MachinePartWriter {
    excess_bytes: u64,
}

impl Default for MachinePartWriter {
    fn default() -> Self {
        Self {
            excess_bytes: MAX_EXCESS_BYTES,
        }
    }
}

impl MachinePartWriter {
    /// Returns the machine part of the activation in which a role handles mail and of those that it led
    /// to.
    pub(super) fn write(
        &mut self,
        role: RoleId,
        activation: &Activation,
        called: &BTreeMap<ActivationKey, Activation>,
    ) -> EncodedPart {
        let mut part = MachinePart {
            role,
            activation: activation.clone(),
            called: called.clone(),
        };
        let mut messages = Vec::new();
        let mut positions = BTreeMap::new();
        part.for_each_message_ref(&mut |message| {
            let position = positions.entry(*message).or_insert_with(|| {
                messages.push(*message);
                MessageRef(messages.len() as u32 - 1)
            });
            *message = *position;
        });
        let text = self.pack(codec::encode(&part, Vec::new()));
        EncodedPart { text, messages }
    }

    /// Returns encoded bytes as a text, compressed if that is allowed.
    fn pack(&mut self, plain: Vec<u8>) -> String {
        let packed = codec::compress(plain.clone());
        let excess = (plain.len() - packed.len()) as u64;
        let bytes = match self.excess_bytes.checked_sub(excess) {
            Some(left) => {
                self.excess_bytes = left;
                packed
            }
            None => plain,
        };
        seal(&bytes)
    }
}

/// Returns bytes as a text, with their checksum.
pub(super) fn seal(bytes: &[u8]) -> String {
    let sum = codec::checksum(&[], bytes);
    format!("{FORMAT}.{sum:08x}.{}", BASE64_STANDARD.encode(bytes))
}

/// Why a machine part cannot be read. The messages continue a sentence whose subject is the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MachinePartError {
    /// It does not have the form of one.
    #[error("is not what this program writes")]
    Form,
    /// A later program wrote it.
    #[error("has the format `{0}`, which a newer strata-host wrote")]
    Format(String),
    /// Its bytes are not those that were written.
    #[error("was changed: {0}")]
    Damage(#[from] CodecError),
    /// It needs more memory than it may.
    #[error("would take far more memory than it is long")]
    Memory,
    /// It is of another role.
    #[error("is that of another role")]
    Role,
    /// It refers to a message that is not in the list.
    #[error("refers to a message that `messages` does not list")]
    Message,
}

/// Reads the machine parts of a file.
pub(super) struct MachinePartReader {
    excess_bytes: u64,
    structure_bytes: usize,
}

impl Default for MachinePartReader {
    fn default() -> Self {
        Self {
            excess_bytes: MAX_EXCESS_BYTES,
            structure_bytes: MAX_STRUCTURE_BYTES,
        }
    }
}

impl MachinePartReader {
    /// Returns a state of a role with the activations that a text contains. `messages` are those that it
    /// refers to. The activations are not validated.
    pub(super) fn read(
        &mut self,
        role: RoleId,
        text: &str,
        messages: &[MessageRef],
    ) -> Result<RoleState, MachinePartError> {
        let packed = to_bytes(text)?;
        let excess = codec::plain_bytes(&packed).saturating_sub(packed.len() as u64);
        let left = self.excess_bytes.checked_sub(excess);
        self.excess_bytes = left.ok_or(MachinePartError::Memory)?;
        let plain = codec::decompress(&packed)?;
        let mut part: MachinePart = codec::decode_limited(&plain, &mut self.structure_bytes)?;
        if part.role != role {
            return Err(MachinePartError::Role);
        }
        let mut is_listed = true;
        part.for_each_message_ref(&mut |message| match messages.get(message.0 as usize) {
            Some(listed) => *message = *listed,
            None => is_listed = false,
        });
        if is_listed {
            Ok(RoleState {
                activation: Some(part.activation),
                called: part.called,
                ..RoleState::default()
            })
        } else {
            Err(MachinePartError::Message)
        }
    }
}

/// Returns the bytes of a text. Fails unless its checksum matches.
pub(super) fn to_bytes(text: &str) -> Result<Vec<u8>, MachinePartError> {
    let mut parts = text.splitn(3, '.');
    let mut next = || parts.next().ok_or(MachinePartError::Form);
    let (format, sum, bytes) = (next()?, next()?, next()?);
    if format != FORMAT {
        return Err(match format.parse::<u32>() {
            Ok(number) => MachinePartError::Format(number.to_string()),
            Err(_) => MachinePartError::Form,
        });
    }
    let sum = u32::from_str_radix(sum, 16).map_err(|_| MachinePartError::Form)?;
    let bytes = BASE64_STANDARD.decode(bytes);
    let bytes = bytes.map_err(|_| CodecError::Checksum)?;
    codec::verify(sum, &[], &bytes)?;
    Ok(bytes)
}

//! Tool calls that the host itself carries out.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_base::files::blob::Blobs;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::json::Json;
use strata_core::record::message::Draft;
use strata_core::record::turn::{HostTool, SkillDigest};
use strata_core::record::work::CallResult;

use super::deferral::found_tools;
use super::server_tools::KnownTools;
use super::skills::{SkillCall, SkillResult};
use super::{Turns, no_settings};

/// The result of a call that the host carries out.
pub(in super::super) struct HostToolResult {
    pub(in super::super) finished: CallResult,
    /// The bytes of images in the result.
    pub(in super::super) blobs: Blobs,
    /// The skill whose text the model is given.
    pub(in super::super) loaded: Option<SkillDigest>,
}

impl Turns {
    /// Returns an attempt at a call of a tool of the host.
    pub(in super::super) fn host_tool(
        &self,
        tool: HostTool,
        call: &Invocation,
        stepper: &Stepper,
    ) -> BoxFuture<'static, Result<HostToolResult, Fault>> {
        let settings = self.roles.settings(call.role).cloned();
        let (Some(settings), Some(known)) = (settings, self.known_tools(call, stepper)) else {
            return no_settings();
        };
        let arguments = call.arguments.clone().unwrap_or_else(Json::null).value();
        let skill_call = SkillCall::new(settings, call, stepper, tool);
        Box::pin(async move {
            match tool {
                HostTool::FindTools => {
                    let query = arguments["query"].as_str().unwrap_or_default();
                    Ok(HostToolResult::of_data(found_tools(&known.settings, query)))
                }
                HostTool::LoadSkill => skill_call.load().map(HostToolResult::from),
                HostTool::ReadSkillFile => skill_call.read_file().map(HostToolResult::from),
                HostTool::CallTool | HostTool::RunSkillScript(_) => {
                    let message = "the call was not planned as one that the host can carry out";
                    Err(Fault::new(FaultKind::Host, message))
                }
            }
        })
    }

    /// Returns the tools of the role that makes a call, with those that servers listed in its activation.
    fn known_tools(&self, call: &Invocation, stepper: &Stepper) -> Option<Arc<KnownTools>> {
        let tools = stepper.team().role(call.role).tool_loop()?;
        let activation = stepper.env().activation(call.key().activation())?;
        let lists = activation.server_tools.clone().unwrap_or_default();
        self.roles.known(call.role, tools, lists)
    }

    /// Returns the call of a script of a skill, for the component that makes it.
    pub(in super::super) fn skill_script(
        &self,
        tool: HostTool,
        call: &Invocation,
        stepper: &Stepper,
    ) -> Option<SkillCall> {
        let settings = self.roles.settings(call.role)?.clone();
        Some(SkillCall::new(settings, call, stepper, tool))
    }
}

impl HostToolResult {
    /// Returns a result that consists of data.
    fn of_data(data: Json) -> Self {
        Self::of_draft(Draft {
            content: data.as_str().to_owned(),
            data: Some(data),
            ..Draft::default()
        })
    }

    fn of_draft(output: Draft) -> Self {
        Self {
            finished: CallResult::Returned {
                output,
                emissions: Vec::new(),
                writes: Vec::new(),
            },
            blobs: Blobs::new(),
            loaded: None,
        }
    }
}

impl From<SkillResult> for HostToolResult {
    fn from(result: SkillResult) -> Self {
        let SkillResult {
            output,
            blobs,
            loaded,
        } = result;
        Self {
            blobs,
            loaded,
            ..Self::of_draft(output)
        }
    }
}

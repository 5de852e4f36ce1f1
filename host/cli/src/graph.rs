//! `graph`: writes a team as a graph. Nothing is run or built, and no component is opened.

use strata_host::graph::{Graph, RenderFormat};
use strata_host::manifest::Definition;

use super::{CommandFailure, GraphArgs, GraphFormat, Printer};

pub(super) fn graph(args: &GraphArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let definition = Definition::read_without_files(&args.team)?;
    let format = match args.format {
        GraphFormat::Mermaid => RenderFormat::Mermaid,
        GraphFormat::Dot => RenderFormat::Dot,
        GraphFormat::Svg => RenderFormat::Svg,
    };
    let graph = Graph::from_team(&definition.team, &definition.tool_roles)
        .and_then(|graph| graph.render(format));
    let text =
        graph.map_err(|error| CommandFailure::usage(error.to_string()).advised(error.advice()))?;
    printer.print(text.trim_end());
    Ok(0)
}

//! `graph`: writes a team as a graph. Nothing is run or built, and no component is opened.

use super::{Failure, GraphArgs, GraphFormat, print};
use crate::graph::{Format, Graph};
use crate::manifest::Definition;

pub(super) fn graph(args: &GraphArgs) -> Result<u8, Failure> {
    let definition = Definition::read_alone(&args.team)?;
    let format = match args.format {
        GraphFormat::Mermaid => Format::Mermaid,
        GraphFormat::Dot => Format::Dot,
        GraphFormat::Svg => Format::Svg,
    };
    let graph = Graph::of(&definition.team).and_then(|graph| graph.write(format));
    let text = graph.map_err(|error| Failure::usage(error.to_string()))?;
    print(text.trim_end());
    Ok(0)
}

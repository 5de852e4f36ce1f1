//! The host's interfaces, as WIT, which is part of this program, and what they define.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use wit_parser::{InterfaceId, PackageId, Resolve, SourceMap, WorldItem};

/// The WIT interfaces.
pub const WIT_FILES: &[(&str, &[u8])] = &[
    ("handler.wit", include_bytes!("../../../wit/handler.wit")),
    ("host.wit", include_bytes!("../../../wit/host.wit")),
    ("http.wit", include_bytes!("../../../wit/http.wit")),
    ("human.wit", include_bytes!("../../../wit/human.wit")),
    ("llm.wit", include_bytes!("../../../wit/llm.wit")),
    ("mcp.wit", include_bytes!("../../../wit/mcp.wit")),
    ("tools.wit", include_bytes!("../../../wit/tools.wit")),
    ("types.wit", include_bytes!("../../../wit/types.wit")),
    ("world.wit", include_bytes!("../../../wit/world.wit")),
];

/// The world that imports everything the host provides.
const HOST_WORLD: &str = "host";

/// Parses the WIT interfaces. Returns the parsed interfaces and the id of their package.
pub fn parse_host_wit() -> (Resolve, PackageId) {
    let mut map = SourceMap::new();
    for (name, text) in WIT_FILES {
        map.push_str(name, String::from_utf8_lossy(text));
    }
    let mut resolve = Resolve::default();
    let group = map.parse().map_err(|(_, error)| error.to_string());
    let package =
        group.and_then(|group| resolve.push_group(group).map_err(|error| error.to_string()));
    // The host's bindings were generated from the same text.
    let package = package.expect("the host's own interfaces are valid");
    (resolve, package)
}

/// Returns the interfaces that the host provides.
pub fn host_interfaces(
    resolve: &Resolve,
    package: PackageId,
) -> impl Iterator<Item = InterfaceId> + '_ {
    let host = &resolve.worlds[resolve.packages[package].worlds[HOST_WORLD]];
    host.imports.values().filter_map(|item| match item {
        WorldItem::Interface { id, .. } => Some(*id),
        _ => None,
    })
}

/// Returns the names of the interfaces that the host provides.
pub fn host_interface_names() -> &'static BTreeSet<String> {
    static NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let (resolve, package) = parse_host_wit();
        host_interfaces(&resolve, package)
            .filter_map(|id| resolve.interfaces[id].name.clone())
            .collect()
    });
    &NAMES
}

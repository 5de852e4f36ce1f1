//! Bounds the size of a component after the compiler has expanded it. The compiler inlines a nested
//! component once for each of its instances, and clones an instance with all its exports at each
//! reference to it. With a few levels of nesting, either turns kilobytes into gigabytes. This module
//! computes the size of the expansion without performing it.
//!
//! A *part* is one entry of the expansion: an item of an index space, an argument, or an export.
//!
//! The bytes are not validated yet. A reference to something that does not exist counts as at most
//! one part: the compiler will reject it before it expands anything.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, Encoding,
    FromReader, Instance, Payload, SectionLimited,
};

use super::LoadError;
use crate::limits::memory::MAX_CORE_INSTANCES;

/// The maximum number of instances of nested components. Toolchains create one for each exported
/// interface, and a composed component has those of all its members.
const MAX_NESTED_INSTANCES: u64 = 4 * MAX_CORE_INSTANCES as u64;
/// The maximum nesting of instances. For each level, the compiler keeps a copy of its table of
/// resource types. Composed components have two or three levels.
const MAX_LEVELS: u64 = 16;
/// The maximum number of parts. Each takes up to a kilobyte of the compiler's memory; the component
/// of the Python interpreter has about 16,000.
const MAX_PARTS: u64 = 1 << 17;

/// Counts the parts of a component, section by section.
#[derive(Default)]
pub(super) struct PartCounter {
    /// The components that have begun and not ended, the innermost last.
    open_components: Vec<OpenComponent>,
    /// Whether a core module is being read. Only its imports count.
    in_core_module: bool,
    /// The number of items that `count_items` has read, including those of components that are
    /// never instantiated.
    items_read: u64,
    /// The largest number of imports of a core module. Every core instance is assumed to copy this
    /// many of them.
    max_imports: u64,
}

/// A component that is being read.
#[derive(Default)]
struct OpenComponent {
    components: Vec<NestedComponent>,
    /// The number of parts of a copy of each instance.
    instances: Vec<PartCount>,
    cost_so_far: ComponentCost,
}

/// A component as another component can refer to it.
#[derive(Clone, Copy)]
enum NestedComponent {
    Defined(ComponentCost),
    /// A component from elsewhere: an import, or an export of an instance.
    External(PartCount),
}

/// What one instance of a component costs.
#[derive(Clone, Copy, Default)]
struct ComponentCost {
    /// The number of parts that an instance adds, without what it captures.
    parts: PartCount,
    /// The number of parts of all its exports.
    exports: PartCount,
    /// The number of parts that it captures from enclosing components.
    captured: u64,
    /// The number of instances of core modules that an instance creates, including those that its
    /// nested instances create.
    core_instances: u64,
    /// The number of instances of components that it creates.
    nested_instances: u64,
    /// The nesting depth of those instances.
    levels: u64,
}

/// A number of parts: `fixed + arguments × a`, where `a` is the number of parts of the largest
/// argument that the enclosing component is instantiated with. It is not known before then.
#[derive(Clone, Copy, Default)]
struct PartCount {
    fixed: u64,
    arguments: u64,
}

impl PartCount {
    const ONE: Self = Self::new(1);
    const ARGUMENT: Self = Self {
        fixed: 0,
        arguments: 1,
    };

    const fn new(fixed: u64) -> Self {
        Self {
            fixed,
            arguments: 0,
        }
    }

    fn add(&mut self, other: Self) {
        self.fixed = self.fixed.saturating_add(other.fixed);
        self.arguments = self.arguments.saturating_add(other.arguments);
    }

    fn max(self, other: Self) -> Self {
        Self {
            fixed: self.fixed.max(other.fixed),
            arguments: self.arguments.max(other.arguments),
        }
    }

    /// Substitutes the number of parts of the largest argument.
    fn substitute_argument(self, argument: Self) -> Self {
        let fixed = self.arguments.saturating_mul(argument.fixed);
        Self {
            fixed: self.fixed.saturating_add(fixed),
            arguments: self.arguments.saturating_mul(argument.arguments),
        }
    }
}

impl NestedComponent {
    fn part_count(&self) -> PartCount {
        match self {
            Self::Defined(definition) => PartCount::new(definition.captured.saturating_add(1)),
            Self::External(parts) => *parts,
        }
    }
}

impl PartCounter {
    /// Counts the next section. Fails if a bound is exceeded.
    pub(super) fn count_section(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => self.in_core_module = true,
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => self.open_components.push(OpenComponent::default()),
            Payload::End(_) if self.in_core_module => self.in_core_module = false,
            Payload::End(_) => self.end_component()?,
            Payload::ImportSection(imports) => {
                self.max_imports = self.max_imports.max(imports.count().into())
            }
            Payload::InstanceSection(instances) => self
                .count_items(instances, |it, instance| {
                    it.current().count_core_instance(&instance)
                })?,
            Payload::ComponentInstanceSection(instances) => {
                self.count_items(instances, |it, instance| {
                    it.current().count_instance(&instance)
                })?;
            }
            Payload::ComponentAliasSection(aliases) => {
                self.count_items(aliases, |it, alias| it.count_alias(&alias))?
            }
            Payload::ComponentImportSection(imports) => {
                self.count_items(imports, |it, import| {
                    it.current()
                        .add_external(import.ty.kind(), PartCount::ARGUMENT)
                })?;
            }
            Payload::ComponentExportSection(exports) => {
                self.count_items(exports, |it, export| {
                    it.current().count_export(export.kind, export.index)
                })?;
            }
            Payload::ComponentCanonicalSection(functions) => self
                .current()
                .add_parts(PartCount::new(functions.count().into()))?,
            Payload::ComponentTypeSection(types) => self
                .current()
                .add_parts(PartCount::new(types.count().into()))?,
            _ => {}
        }
        Ok(())
    }

    fn count_items<'a, T: FromReader<'a>>(
        &mut self,
        section: &SectionLimited<'a, T>,
        mut count: impl FnMut(&mut Self, T) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        for item in section.clone() {
            self.items_read += 1;
            check_bound("parts", self.items_read, MAX_PARTS)?;
            count(
                self,
                item.map_err(|error| LoadError::Invalid(error.to_string()))?,
            )?;
        }
        Ok(())
    }

    /// Returns the component that is being read.
    fn current(&mut self) -> &mut OpenComponent {
        self.open_components.last_mut().expect(
            "the parser gives a component's sections only between its beginning and its end",
        )
    }

    fn end_component(&mut self) -> Result<(), LoadError> {
        let Some(OpenComponent { cost_so_far, .. }) = self.open_components.pop() else {
            return Ok(());
        };
        match self.open_components.last_mut() {
            Some(enclosing) => enclosing.add_component(NestedComponent::Defined(cost_so_far)),
            None => {
                // The host passes one item for each import.
                let parts = cost_so_far.parts.substitute_argument(PartCount::ONE).fixed;
                check_bound(
                    "parts",
                    parts.saturating_add(
                        cost_so_far.core_instances.saturating_mul(self.max_imports),
                    ),
                    MAX_PARTS,
                )
            }
        }
    }

    fn count_alias(&mut self, alias: &ComponentAlias<'_>) -> Result<(), LoadError> {
        match *alias {
            ComponentAlias::InstanceExport {
                kind,
                instance_index,
                ..
            } => {
                let component = self.current();
                // An export has no more parts than its instance.
                let parts = component.part_count(ComponentExternalKind::Instance, instance_index);
                component.add_external(kind, parts)
            }
            ComponentAlias::CoreInstanceExport { .. } => self.current().add_parts(PartCount::ONE),
            ComponentAlias::Outer {
                kind,
                count: depth,
                index,
            } => self.count_outer_alias(kind, depth, index),
        }
    }

    /// Counts an alias of an outer item, which all components in between capture.
    fn count_outer_alias(
        &mut self,
        kind: ComponentOuterAliasKind,
        depth: u32,
        index: u32,
    ) -> Result<(), LoadError> {
        let Some(at) = self.open_components.len().checked_sub(depth as usize + 1) else {
            return Ok(());
        };
        let (enclosing, in_between) = self.open_components.split_at_mut(at + 1);
        let named = match (kind, enclosing.last()) {
            (ComponentOuterAliasKind::Component, Some(component)) => {
                component.components.get(index as usize).copied()
            }
            _ => None,
        };
        let captured = match (kind, named) {
            (ComponentOuterAliasKind::Component, Some(NestedComponent::External(_))) => {
                return Err(LoadError::ComponentFromElsewhere);
            }
            (_, Some(nested)) => nested.part_count().fixed,
            (ComponentOuterAliasKind::CoreModule, None) => 1,
            _ => 0,
        };
        for component in in_between {
            let cost = &mut component.cost_so_far;
            cost.captured = cost.captured.saturating_add(captured);
        }
        match named {
            Some(nested) => self.current().add_component(nested),
            None => self.current().add_parts(PartCount::ONE),
        }
    }
}

impl OpenComponent {
    fn add_parts(&mut self, parts: PartCount) -> Result<(), LoadError> {
        self.cost_so_far.parts.add(parts);
        check_bound("parts", self.cost_so_far.parts.fixed, MAX_PARTS)
    }

    fn part_count(&self, kind: ComponentExternalKind, index: u32) -> PartCount {
        let at = index as usize;
        let parts = match kind {
            ComponentExternalKind::Instance => self.instances.get(at).copied(),
            ComponentExternalKind::Component => {
                self.components.get(at).map(NestedComponent::part_count)
            }
            _ => None,
        };
        parts.unwrap_or(PartCount::ONE)
    }

    fn add_component(&mut self, nested: NestedComponent) -> Result<(), LoadError> {
        self.components.push(nested);
        self.add_parts(nested.part_count())
    }

    /// Counts an item from elsewhere that has at most this many parts.
    fn add_external(
        &mut self,
        kind: ComponentExternalKind,
        parts: PartCount,
    ) -> Result<(), LoadError> {
        match kind {
            ComponentExternalKind::Component => {
                self.add_component(NestedComponent::External(parts))
            }
            ComponentExternalKind::Instance => {
                self.instances.push(parts);
                self.add_parts(parts)
            }
            _ => self.add_parts(PartCount::ONE),
        }
    }

    /// Counts an export, which can be referred to again.
    fn count_export(&mut self, kind: ComponentExternalKind, index: u32) -> Result<(), LoadError> {
        let parts = self.part_count(kind, index);
        self.cost_so_far.exports.add(parts);
        match (kind, self.components.get(index as usize).copied()) {
            (ComponentExternalKind::Component, Some(nested)) => self.add_component(nested),
            _ => self.add_external(kind, parts),
        }
    }

    fn count_core_instance(&mut self, instance: &Instance<'_>) -> Result<(), LoadError> {
        let named = match instance {
            Instance::Instantiate { args, .. } => {
                self.cost_so_far.core_instances += 1;
                check_bound(
                    "core instances",
                    self.cost_so_far.core_instances,
                    MAX_CORE_INSTANCES.into(),
                )?;
                args.len()
            }
            Instance::FromExports(exports) => exports.len(),
        };
        self.add_parts(PartCount::new(named as u64 + 1))
    }

    fn count_instance(&mut self, instance: &ComponentInstance<'_>) -> Result<(), LoadError> {
        let mut total = PartCount::ONE;
        match instance {
            ComponentInstance::FromExports(exports) => {
                for export in exports {
                    total.add(self.part_count(export.kind, export.index));
                }
            }
            ComponentInstance::Instantiate {
                component_index,
                args,
            } => {
                let mut largest = PartCount::ONE;
                for arg in args {
                    let parts = self.part_count(arg.kind, arg.index);
                    self.add_parts(parts)?;
                    largest = largest.max(parts);
                }
                match self.components.get(*component_index as usize).copied() {
                    Some(NestedComponent::External(_)) => {
                        return Err(LoadError::ComponentFromElsewhere);
                    }
                    Some(NestedComponent::Defined(definition)) => {
                        total.add(self.count_instantiation(definition, largest)?)
                    }
                    None => {}
                }
            }
        }
        self.add_external(ComponentExternalKind::Instance, total)
    }

    /// Adds the cost of instantiating a component. Returns the number of parts of the exports of the
    /// instance.
    fn count_instantiation(
        &mut self,
        component: ComponentCost,
        largest: PartCount,
    ) -> Result<PartCount, LoadError> {
        let cost = &mut self.cost_so_far;
        cost.core_instances = cost.core_instances.saturating_add(component.core_instances);
        cost.nested_instances = cost
            .nested_instances
            .saturating_add(component.nested_instances)
            .saturating_add(1);
        cost.levels = cost.levels.max(component.levels + 1);
        check_bound(
            "core instances",
            cost.core_instances,
            MAX_CORE_INSTANCES.into(),
        )?;
        check_bound(
            "instances of nested components",
            cost.nested_instances,
            MAX_NESTED_INSTANCES,
        )?;
        check_bound("levels of components", cost.levels, MAX_LEVELS)?;
        self.add_parts(PartCount::new(component.captured))?;
        self.add_parts(component.parts.substitute_argument(largest))?;
        Ok(component.exports.substitute_argument(largest))
    }
}

fn check_bound(what: &'static str, needed: u64, bound: u64) -> Result<(), LoadError> {
    if needed <= bound {
        return Ok(());
    }
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Err(LoadError::TooMany {
        what,
        needed: narrow(needed),
        bound: narrow(bound),
    })
}

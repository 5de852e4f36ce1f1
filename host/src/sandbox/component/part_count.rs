//! Bounds what a component is composed of. The compiler writes out a nested component for each of
//! its instances, and copies an instance with all its exports wherever it is named, so a few levels
//! of either turn kilobytes into gigabytes. This module counts both without creating them.
//!
//! The bytes are not validated yet. A reference to something that does not exist counts as nothing,
//! because the compiler rejects it first.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, Encoding,
    FromReader, Instance, Payload, SectionLimited,
};

use super::LoadError;
use crate::sandbox::limits::memory::MAX_INSTANCES;

/// The maximum number of instances of nested components. Toolchains create one for each exported
/// interface, and a composed component has those of all its members.
const MAX_NESTED_INSTANCES: u64 = 4 * MAX_INSTANCES as u64;
/// The maximum nesting of instances. Each level keeps a copy of its knowledge of resources;
/// composed components have two or three levels.
const MAX_LEVELS: u64 = 16;
/// The maximum number of parts. Each takes up to a kilobyte of the compiler's memory; the Python
/// interpreter has about 16,000.
const MAX_PARTS: u64 = 1 << 17;

/// Counts the parts of a component, section by section.
#[derive(Default)]
pub(super) struct PartCounter {
    /// The components that have begun and not ended, the innermost last.
    open: Vec<OpenComponent>,
    /// Whether a core module is being read. Only its imports count.
    module: bool,
    /// The number of all items that were read, including those that are never instantiated.
    items_read: u64,
    /// The largest number of imports of a core module. Each of its instances has a copy of them.
    max_imports: u64,
}

/// A component that is being read.
#[derive(Default)]
struct OpenComponent {
    components: Vec<NestedComponent>,
    /// The cost of a copy of each instance.
    instances: Vec<PartCount>,
    own: ComponentCost,
}

/// A component as another component can refer to it.
#[derive(Clone, Copy)]
enum NestedComponent {
    Defined(ComponentCost),
    /// A component from elsewhere: an import, or an export of an instance.
    External(PartCount),
}

/// What is known about a component.
#[derive(Clone, Copy, Default)]
struct ComponentCost {
    /// The number of parts of an instance.
    parts: PartCount,
    /// The number of parts of all its exports.
    exports: PartCount,
    /// The number of parts that it captures from enclosing components.
    captured: u64,
    /// The number of instances of core modules that an instance creates.
    core_instances: u64,
    /// The number of instances of components that it creates.
    nested_instances: u64,
    /// The nesting depth of those instances.
    levels: u64,
}

/// A number of parts, which may depend on the arguments that the enclosing component is
/// instantiated with.
#[derive(Clone, Copy, Default)]
struct PartCount {
    fixed: u64,
    /// How many times the parts of the largest argument are added.
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

    /// Substitutes the weight of the largest argument.
    fn with_argument(self, argument: Self) -> Self {
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
            Self::External(weight) => *weight,
        }
    }
}

impl PartCounter {
    /// Counts the next section. Fails if a bound is exceeded.
    pub(super) fn count(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => self.module = true,
            Payload::Version {
                encoding: Encoding::Component,
                ..
            } => self.open.push(OpenComponent::default()),
            Payload::End(_) if self.module => self.module = false,
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
        self.open.last_mut().expect(
            "the parser gives a component's sections only between its beginning and its end",
        )
    }

    fn end_component(&mut self) -> Result<(), LoadError> {
        let Some(OpenComponent { own, .. }) = self.open.pop() else {
            return Ok(());
        };
        match self.open.last_mut() {
            Some(around) => around.add_component(NestedComponent::Defined(own)),
            None => {
                // The host passes one item for each import.
                let parts = own.parts.with_argument(PartCount::ONE).fixed;
                check_bound(
                    "parts",
                    parts.saturating_add(own.core_instances.saturating_mul(self.max_imports)),
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
                let frame = self.current();
                // A part of an instance has no more parts than the whole.
                let total = frame.part_count(ComponentExternalKind::Instance, instance_index);
                frame.add_external(kind, total)
            }
            ComponentAlias::CoreInstanceExport { .. } => self.current().add_parts(PartCount::ONE),
            ComponentAlias::Outer { kind, count, index } => {
                self.count_outer_alias(kind, count, index)
            }
        }
    }

    /// Counts an alias of an outer item, which all components in between capture.
    fn count_outer_alias(
        &mut self,
        kind: ComponentOuterAliasKind,
        count: u32,
        index: u32,
    ) -> Result<(), LoadError> {
        let Some(at) = self.open.len().checked_sub(count as usize + 1) else {
            return Ok(());
        };
        let (around, between) = self.open.split_at_mut(at + 1);
        let named = match (kind, around.last()) {
            (ComponentOuterAliasKind::Component, Some(frame)) => {
                frame.components.get(index as usize).copied()
            }
            _ => None,
        };
        let kept = match (kind, named) {
            (ComponentOuterAliasKind::Component, Some(NestedComponent::External(_))) => {
                return Err(LoadError::ComponentNotDefined);
            }
            (_, Some(nested)) => nested.part_count().fixed,
            (ComponentOuterAliasKind::CoreModule, None) => 1,
            _ => 0,
        };
        for frame in between {
            frame.own.captured = frame.own.captured.saturating_add(kept);
        }
        match named {
            Some(nested) => self.current().add_component(nested),
            None => self.current().add_parts(PartCount::ONE),
        }
    }
}

impl OpenComponent {
    fn add_parts(&mut self, weight: PartCount) -> Result<(), LoadError> {
        self.own.parts.add(weight);
        check_bound("parts", self.own.parts.fixed, MAX_PARTS)
    }

    fn part_count(&self, kind: ComponentExternalKind, index: u32) -> PartCount {
        let at = index as usize;
        let weight = match kind {
            ComponentExternalKind::Instance => self.instances.get(at).copied(),
            ComponentExternalKind::Component => {
                self.components.get(at).map(NestedComponent::part_count)
            }
            _ => None,
        };
        weight.unwrap_or(PartCount::ONE)
    }

    fn add_component(&mut self, nested: NestedComponent) -> Result<(), LoadError> {
        self.components.push(nested);
        self.add_parts(nested.part_count())
    }

    /// Counts an item from elsewhere with at most this weight.
    fn add_external(
        &mut self,
        kind: ComponentExternalKind,
        weight: PartCount,
    ) -> Result<(), LoadError> {
        match kind {
            ComponentExternalKind::Component => {
                self.add_component(NestedComponent::External(weight))
            }
            ComponentExternalKind::Instance => {
                self.instances.push(weight);
                self.add_parts(weight)
            }
            _ => self.add_parts(PartCount::ONE),
        }
    }

    /// Counts an export, which can be referred to again.
    fn count_export(&mut self, kind: ComponentExternalKind, index: u32) -> Result<(), LoadError> {
        let weight = self.part_count(kind, index);
        self.own.exports.add(weight);
        match (kind, self.components.get(index as usize).copied()) {
            (ComponentExternalKind::Component, Some(nested)) => self.add_component(nested),
            _ => self.add_external(kind, weight),
        }
    }

    fn count_core_instance(&mut self, instance: &Instance<'_>) -> Result<(), LoadError> {
        let named = match instance {
            Instance::Instantiate { args, .. } => {
                self.own.core_instances += 1;
                check_bound(
                    "core instances",
                    self.own.core_instances,
                    MAX_INSTANCES.into(),
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
                    let weight = self.part_count(arg.kind, arg.index);
                    self.add_parts(weight)?;
                    largest = largest.max(weight);
                }
                match self.components.get(*component_index as usize).copied() {
                    Some(NestedComponent::External(_)) => {
                        return Err(LoadError::ComponentNotDefined);
                    }
                    Some(NestedComponent::Defined(definition)) => {
                        total.add(self.instantiate(definition, largest)?)
                    }
                    None => {}
                }
            }
        }
        self.add_external(ComponentExternalKind::Instance, total)
    }

    /// Counts an instance. Returns the weight of its exports.
    fn instantiate(
        &mut self,
        component: ComponentCost,
        largest: PartCount,
    ) -> Result<PartCount, LoadError> {
        let own = &mut self.own;
        own.core_instances = own.core_instances.saturating_add(component.core_instances);
        own.nested_instances = own
            .nested_instances
            .saturating_add(component.nested_instances)
            .saturating_add(1);
        own.levels = own.levels.max(component.levels + 1);
        check_bound("core instances", own.core_instances, MAX_INSTANCES.into())?;
        check_bound(
            "instances of nested components",
            own.nested_instances,
            MAX_NESTED_INSTANCES,
        )?;
        check_bound("levels of components", own.levels, MAX_LEVELS)?;
        self.add_parts(PartCount::new(component.captured))?;
        self.add_parts(component.parts.with_argument(largest))?;
        Ok(component.exports.with_argument(largest))
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

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
use crate::sandbox::limits::memory::INSTANCES;

/// The maximum number of instances of nested components. Toolchains create one for each exported
/// interface, and a composed component has those of all its members.
const NESTED: u64 = 4 * INSTANCES as u64;
/// The maximum nesting of instances. Each level keeps a copy of its knowledge of resources;
/// composed components have two or three levels.
const LEVELS: u64 = 16;
/// The maximum number of parts. Each takes up to a kilobyte of the compiler's memory; the Python
/// interpreter has about 16,000.
const PARTS: u64 = 1 << 17;

/// Counts the parts of a component, section by section.
#[derive(Default)]
pub(super) struct Parts {
    /// The components that have begun and not ended, the innermost last.
    open: Vec<Frame>,
    /// Whether a core module is being read. Only its imports count.
    module: bool,
    /// The number of all items that were read, including those that are never instantiated.
    read: u64,
    /// The largest number of imports of a core module. Each of its instances has a copy of them.
    imports: u64,
}

/// A component that is being read.
#[derive(Default)]
struct Frame {
    components: Vec<Nested>,
    /// The cost of a copy of each instance.
    instances: Vec<Weight>,
    own: Definition,
}

/// A component as another component can refer to it.
#[derive(Clone, Copy)]
enum Nested {
    Defined(Definition),
    /// A component from elsewhere: an import, or an export of an instance.
    Given(Weight),
}

/// What is known about a component.
#[derive(Clone, Copy, Default)]
struct Definition {
    /// The number of parts of an instance.
    parts: Weight,
    /// The number of parts of all its exports.
    exports: Weight,
    /// The number of parts that it captures from enclosing components.
    kept: u64,
    /// The number of instances of core modules that an instance creates.
    cores: u64,
    /// The number of instances of components that it creates.
    nested: u64,
    /// The nesting depth of those instances.
    levels: u64,
}

/// A number of parts, which may depend on the arguments that the enclosing component is
/// instantiated with.
#[derive(Clone, Copy, Default)]
struct Weight {
    fixed: u64,
    /// How many times the parts of the largest argument are added.
    arguments: u64,
}

impl Weight {
    const ONE: Self = Self::of(1);
    const ARGUMENT: Self = Self {
        fixed: 0,
        arguments: 1,
    };

    const fn of(fixed: u64) -> Self {
        Self {
            fixed,
            arguments: 0,
        }
    }

    fn add(&mut self, other: Self) {
        self.fixed = self.fixed.saturating_add(other.fixed);
        self.arguments = self.arguments.saturating_add(other.arguments);
    }

    fn or_more(self, other: Self) -> Self {
        Self {
            fixed: self.fixed.max(other.fixed),
            arguments: self.arguments.max(other.arguments),
        }
    }

    /// Substitutes the weight of the largest argument.
    fn with(self, argument: Self) -> Self {
        let fixed = self.arguments.saturating_mul(argument.fixed);
        Self {
            fixed: self.fixed.saturating_add(fixed),
            arguments: self.arguments.saturating_mul(argument.arguments),
        }
    }
}

impl Nested {
    fn weight(&self) -> Weight {
        match self {
            Self::Defined(definition) => Weight::of(definition.kept.saturating_add(1)),
            Self::Given(weight) => *weight,
        }
    }
}

impl Parts {
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
            } => self.open.push(Frame::default()),
            Payload::End(_) if self.module => self.module = false,
            Payload::End(_) => self.close()?,
            Payload::ImportSection(imports) => {
                self.imports = self.imports.max(imports.count().into())
            }
            Payload::InstanceSection(instances) => {
                self.each(instances, |it, instance| it.frame().core(&instance))?
            }
            Payload::ComponentInstanceSection(instances) => {
                self.each(instances, |it, instance| it.frame().instance(&instance))?;
            }
            Payload::ComponentAliasSection(aliases) => {
                self.each(aliases, |it, alias| it.alias(&alias))?
            }
            Payload::ComponentImportSection(imports) => {
                self.each(imports, |it, import| {
                    it.frame().given(import.ty.kind(), Weight::ARGUMENT)
                })?;
            }
            Payload::ComponentExportSection(exports) => {
                self.each(exports, |it, export| {
                    it.frame().export(export.kind, export.index)
                })?;
            }
            Payload::ComponentCanonicalSection(functions) => {
                self.frame().charge(Weight::of(functions.count().into()))?
            }
            Payload::ComponentTypeSection(types) => {
                self.frame().charge(Weight::of(types.count().into()))?
            }
            _ => {}
        }
        Ok(())
    }

    fn each<'a, T: FromReader<'a>>(
        &mut self,
        section: &SectionLimited<'a, T>,
        mut count: impl FnMut(&mut Self, T) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        for item in section.clone() {
            self.read += 1;
            within("parts", self.read, PARTS)?;
            count(
                self,
                item.map_err(|error| LoadError::Invalid(error.to_string()))?,
            )?;
        }
        Ok(())
    }

    /// Returns the component that is being read.
    fn frame(&mut self) -> &mut Frame {
        self.open.last_mut().expect(
            "the parser gives a component's sections only between its beginning and its end",
        )
    }

    fn close(&mut self) -> Result<(), LoadError> {
        let Some(Frame { own, .. }) = self.open.pop() else {
            return Ok(());
        };
        match self.open.last_mut() {
            Some(around) => around.component(Nested::Defined(own)),
            None => {
                // The host passes one item for each import.
                let parts = own.parts.with(Weight::ONE).fixed;
                within(
                    "parts",
                    parts.saturating_add(own.cores.saturating_mul(self.imports)),
                    PARTS,
                )
            }
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) -> Result<(), LoadError> {
        match *alias {
            ComponentAlias::InstanceExport {
                kind,
                instance_index,
                ..
            } => {
                let frame = self.frame();
                // A part of an instance has no more parts than the whole.
                let total = frame.weight(ComponentExternalKind::Instance, instance_index);
                frame.given(kind, total)
            }
            ComponentAlias::CoreInstanceExport { .. } => self.frame().charge(Weight::ONE),
            ComponentAlias::Outer { kind, count, index } => self.outer(kind, count, index),
        }
    }

    /// Counts an alias of an outer item, which all components in between capture.
    fn outer(
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
            (ComponentOuterAliasKind::Component, Some(Nested::Given(_))) => {
                return Err(LoadError::ComponentGiven);
            }
            (_, Some(nested)) => nested.weight().fixed,
            (ComponentOuterAliasKind::CoreModule, None) => 1,
            _ => 0,
        };
        for frame in between {
            frame.own.kept = frame.own.kept.saturating_add(kept);
        }
        match named {
            Some(nested) => self.frame().component(nested),
            None => self.frame().charge(Weight::ONE),
        }
    }
}

impl Frame {
    fn charge(&mut self, weight: Weight) -> Result<(), LoadError> {
        self.own.parts.add(weight);
        within("parts", self.own.parts.fixed, PARTS)
    }

    fn weight(&self, kind: ComponentExternalKind, index: u32) -> Weight {
        let at = index as usize;
        let weight = match kind {
            ComponentExternalKind::Instance => self.instances.get(at).copied(),
            ComponentExternalKind::Component => self.components.get(at).map(Nested::weight),
            _ => None,
        };
        weight.unwrap_or(Weight::ONE)
    }

    fn component(&mut self, nested: Nested) -> Result<(), LoadError> {
        self.components.push(nested);
        self.charge(nested.weight())
    }

    /// Counts an item from elsewhere with at most this weight.
    fn given(&mut self, kind: ComponentExternalKind, weight: Weight) -> Result<(), LoadError> {
        match kind {
            ComponentExternalKind::Component => self.component(Nested::Given(weight)),
            ComponentExternalKind::Instance => {
                self.instances.push(weight);
                self.charge(weight)
            }
            _ => self.charge(Weight::ONE),
        }
    }

    /// Counts an export, which can be referred to again.
    fn export(&mut self, kind: ComponentExternalKind, index: u32) -> Result<(), LoadError> {
        let weight = self.weight(kind, index);
        self.own.exports.add(weight);
        match (kind, self.components.get(index as usize).copied()) {
            (ComponentExternalKind::Component, Some(nested)) => self.component(nested),
            _ => self.given(kind, weight),
        }
    }

    fn core(&mut self, instance: &Instance<'_>) -> Result<(), LoadError> {
        let named = match instance {
            Instance::Instantiate { args, .. } => {
                self.own.cores += 1;
                within("core instances", self.own.cores, INSTANCES.into())?;
                args.len()
            }
            Instance::FromExports(exports) => exports.len(),
        };
        self.charge(Weight::of(named as u64 + 1))
    }

    fn instance(&mut self, instance: &ComponentInstance<'_>) -> Result<(), LoadError> {
        let mut total = Weight::ONE;
        match instance {
            ComponentInstance::FromExports(exports) => {
                for export in exports {
                    total.add(self.weight(export.kind, export.index));
                }
            }
            ComponentInstance::Instantiate {
                component_index,
                args,
            } => {
                let mut largest = Weight::ONE;
                for arg in args {
                    let weight = self.weight(arg.kind, arg.index);
                    self.charge(weight)?;
                    largest = largest.or_more(weight);
                }
                match self.components.get(*component_index as usize).copied() {
                    Some(Nested::Given(_)) => return Err(LoadError::ComponentGiven),
                    Some(Nested::Defined(definition)) => {
                        total.add(self.instantiate(definition, largest)?)
                    }
                    None => {}
                }
            }
        }
        self.given(ComponentExternalKind::Instance, total)
    }

    /// Counts an instance. Returns the weight of its exports.
    fn instantiate(&mut self, component: Definition, largest: Weight) -> Result<Weight, LoadError> {
        let own = &mut self.own;
        own.cores = own.cores.saturating_add(component.cores);
        own.nested = own
            .nested
            .saturating_add(component.nested)
            .saturating_add(1);
        own.levels = own.levels.max(component.levels + 1);
        within("core instances", own.cores, INSTANCES.into())?;
        within("instances of nested components", own.nested, NESTED)?;
        within("levels of components", own.levels, LEVELS)?;
        self.charge(Weight::of(component.kept))?;
        self.charge(component.parts.with(largest))?;
        Ok(component.exports.with(largest))
    }
}

fn within(what: &'static str, needed: u64, bound: u64) -> Result<(), LoadError> {
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

//! A linked component whose functions have been looked up, so that calls need no searching.

use std::sync::{Arc, OnceLock};

use wasmtime::component::{
    Component, ComponentExportIndex, ComponentNamedList, HasSelf, Instance, InstancePre, Lift,
    Linker, Lower, TypedFunc,
};
use wasmtime::{Engine, Store};

use super::{Exports, HANDLER, LoadError, PLANNER, THINKER, load_error};
use crate::bindings::{
    ActParams, ChooseParams, ChooseResult, DescribeResult, PlanResult, RunResult, VersatileAction,
    script,
};
use crate::capability;
use crate::ctx::Ctx;
use crate::debug_info::DebugInfo;
use crate::engine::{Metering, TickGuard, Ticker};
use crate::foreign_component::ForeignFunctions;
use crate::limits::memory::{MAX_MEMORIES, MAX_TABLES};

/// A component that can be instantiated and called.
pub(crate) struct LinkedComponent {
    pre: InstancePre<Ctx>,
    metering: Metering,
    wasi: WasiImport,
    /// `None` if the component does not use the host's interfaces.
    handler: Option<Handler>,
    plan: Option<ExportedFunction>,
    choose: Option<ExportedFunction>,
    functions: ForeignFunctions,
    sources: Arc<DebugInfo>,
    ticker: Arc<Ticker>,
}

/// The exported functions of the handler.
struct Handler {
    describe: ExportedFunction,
    run: ExportedFunction,
}

/// An exported function. All instances of a component have the same types, so the type of the function
/// is checked in the first one only: comparing the types takes as long as a short call.
struct ExportedFunction {
    index: ComponentExportIndex,
    is_checked: OnceLock<()>,
}

impl ExportedFunction {
    /// Returns a function of an interface, if the component exports it.
    fn of(component: &Component, interface: &str, name: &str) -> Option<Self> {
        let interface = component.get_export_index(None, interface)?;
        Some(Self {
            index: component.get_export_index(Some(&interface), name)?,
            is_checked: OnceLock::new(),
        })
    }

    /// Returns the function of an instance of its component. Fails if it has another type.
    ///
    /// # Safety
    ///
    /// `Params` and `Return` are the same, except for lifetimes, in all calls with this function.
    #[expect(unsafe_code, reason = "the type of the function was checked before")]
    unsafe fn in_instance<Params, Return>(
        &self,
        store: &mut Store<Ctx>,
        instance: &Instance,
    ) -> wasmtime::Result<TypedFunc<Params, Return>>
    where
        Params: ComponentNamedList + Lower,
        Return: ComponentNamedList + Lift,
    {
        if self.is_checked.get().is_some()
            && let Some(function) = instance.get_func(&mut *store, self.index)
        {
            // SAFETY: the type was compared with these types in another instance of the component.
            return Ok(unsafe { TypedFunc::new_unchecked(function) });
        }
        let function = instance.get_typed_func(&mut *store, self.index)?;
        self.is_checked.get_or_init(|| ());
        Ok(function)
    }
}

/// Whether a component imports WASI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WasiImport {
    Imported,
    Absent,
}

impl LinkedComponent {
    /// Links a compiled component, whose guests `ticker` interrupts.
    pub(super) fn new(
        component: &Component,
        debug_info: DebugInfo,
        metering: Metering,
        ticker: &Arc<Ticker>,
    ) -> Result<Self, LoadError> {
        let function = |interface, name| ExportedFunction::of(component, interface, name);
        let handler = function(HANDLER, "describe").zip(function(HANDLER, "run"));
        check_bounds(component)?;
        let engine = component.engine();
        let wasi = imports_wasi(component, engine);
        let pre = new_linker(engine, wasi)
            .and_then(|linker| linker.instantiate_pre(component))
            .map_err(|error| load_error::link_error(component, &error))?;
        Ok(Self {
            pre,
            metering,
            wasi,
            handler: handler.map(|(describe, run)| Handler { describe, run }),
            plan: function(PLANNER, "plan"),
            choose: function(THINKER, "choose"),
            functions: ForeignFunctions::of_component(component),
            sources: Arc::new(debug_info),
            ticker: Arc::clone(ticker),
        })
    }

    /// Fails if the component is not an action.
    pub(super) fn check_handler(&self) -> Result<(), LoadError> {
        match self.handler {
            Some(_) => Ok(()),
            None => Err(load_error::export_error(self.pre.component())),
        }
    }

    pub(super) fn exports(&self) -> Exports {
        Exports {
            handler: self.handler.is_some(),
            thinker: self.choose.is_some(),
            planner: self.plan.is_some(),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.pre.engine()
    }

    /// Returns a guard during whose lifetime its guests are interrupted at each tick.
    pub(crate) fn tick_guard(&self) -> TickGuard {
        self.ticker.guard()
    }

    /// Returns whether it was loaded for calls with a fuel limit.
    pub(super) fn counts_fuel(&self) -> bool {
        self.metering == Metering::Fuel
    }

    pub(crate) fn uses_wasi(&self) -> bool {
        self.wasi == WasiImport::Imported
    }

    pub(crate) async fn instantiate(&self, store: &mut Store<Ctx>) -> wasmtime::Result<Instance> {
        self.pre.instantiate_async(store).await
    }

    /// Returns the function `describe` of an instance, if the component exports it.
    #[expect(unsafe_code, reason = "the types are those of the WIT")]
    pub(crate) fn describe(
        &self,
        store: &mut Store<Ctx>,
        instance: &Instance,
    ) -> wasmtime::Result<Option<TypedFunc<(), DescribeResult>>> {
        let Some(function) = self.handler.as_ref().map(|handler| &handler.describe) else {
            return Ok(None);
        };
        // SAFETY: this is the only call with this function.
        unsafe { function.in_instance(store, instance).map(Some) }
    }

    /// Returns the function `run` of an instance, if the component exports it.
    #[expect(unsafe_code, reason = "the types are those of the WIT")]
    pub(crate) fn run<'a>(
        &self,
        store: &mut Store<Ctx>,
        instance: &Instance,
    ) -> wasmtime::Result<Option<TypedFunc<ActParams<'a>, RunResult>>> {
        let Some(function) = self.handler.as_ref().map(|handler| &handler.run) else {
            return Ok(None);
        };
        // SAFETY: this is the only call with this function.
        unsafe { function.in_instance(store, instance).map(Some) }
    }

    /// Returns the function `plan` of an instance, if the component exports it.
    #[expect(unsafe_code, reason = "the types are those of the WIT")]
    pub(crate) fn plan<'a>(
        &self,
        store: &mut Store<Ctx>,
        instance: &Instance,
    ) -> wasmtime::Result<Option<TypedFunc<ActParams<'a>, PlanResult>>> {
        let Some(function) = &self.plan else {
            return Ok(None);
        };
        // SAFETY: this is the only call with this function.
        unsafe { function.in_instance(store, instance).map(Some) }
    }

    /// Returns the function `choose` of an instance, if the component exports it.
    #[expect(unsafe_code, reason = "the types are those of the WIT")]
    pub(crate) fn choose<'a>(
        &self,
        store: &mut Store<Ctx>,
        instance: &Instance,
    ) -> wasmtime::Result<Option<TypedFunc<ChooseParams<'a>, ChooseResult>>> {
        let Some(function) = &self.choose else {
            return Ok(None);
        };
        // SAFETY: this is the only call with this function.
        unsafe { function.in_instance(store, instance).map(Some) }
    }

    /// Returns the debug information of the component.
    pub(crate) fn sources(&self) -> &Arc<DebugInfo> {
        &self.sources
    }

    pub(crate) fn functions(&self) -> &ForeignFunctions {
        &self.functions
    }
}

/// Fails if the component cannot be instantiated within the sandbox's bounds.
fn check_bounds(component: &Component) -> Result<(), LoadError> {
    let Some(needs) = component.resources_required() else {
        return Err(LoadError::ImportsModule);
    };
    let bounds = [
        ("memories", needs.num_memories, MAX_MEMORIES),
        ("tables", needs.num_tables, MAX_TABLES),
    ];
    match bounds.into_iter().find(|(_, needed, bound)| needed > bound) {
        None => Ok(()),
        Some((what, needed, bound)) => Err(LoadError::TooMany {
            what,
            needed,
            bound,
        }),
    }
}

fn imports_wasi(component: &Component, engine: &Engine) -> WasiImport {
    let ty = component.component_type();
    let mut imports = ty.imports(engine);
    if imports.any(|(name, _)| name.starts_with("wasi:")) {
        WasiImport::Imported
    } else {
        WasiImport::Absent
    }
}

/// Every component can import all interfaces of the host. Functions without a grant return
/// `denied`.
fn new_linker(engine: &Engine, wasi: WasiImport) -> wasmtime::Result<Linker<Ctx>> {
    fn own(ctx: &mut Ctx) -> &mut Ctx {
        ctx
    }
    type CtxData = HasSelf<Ctx>;
    let mut linker = Linker::new(engine);
    VersatileAction::add_to_linker::<Ctx, CtxData>(&mut linker, own)?;
    // What the interpreters of scripts that ship with this program import beside these.
    script::add_to_linker::<Ctx, CtxData>(&mut linker, own)?;
    if wasi == WasiImport::Imported {
        capability::wasi::add_to_linker(&mut linker)?;
    }
    Ok(linker)
}

//! Checks which roles call each other as tools: none calls itself, whatever other roles are between,
//! the way from a role that handles mail is not too long, and none that is called hands over.

use std::collections::BTreeSet;
use std::ops::Range;

use strata_core::record::id::RoleId;
use strata_core::record::role_call::MAX_ROLE_CALLS;

use crate::diagnostic::Problems;

/// The roles that a role names as tools.
#[derive(Default)]
pub(super) struct RoleLinks {
    /// Those that it can call.
    pub(super) called: Vec<LinkedRole>,
    /// Those that it can hand over to.
    pub(super) handoffs: Vec<LinkedRole>,
}

/// A role that another one names.
pub(super) struct LinkedRole {
    pub(super) role: RoleId,
    /// Where it is named.
    pub(super) span: Range<usize>,
}

/// Checks what the roles name as tools. `links` has one entry for each role, `names` the names of the
/// roles.
pub(super) fn check_role_links(links: Vec<RoleLinks>, names: &[&str], problems: &Problems) {
    let (called, handoffs): (Vec<_>, Vec<_>) = links
        .into_iter()
        .map(|role| (role.called, role.handoffs))
        .unzip();
    check_role_calls(&called, names, problems);
    check_handoffs(&called, &handoffs, names, problems);
}

/// Reports roles that are called as tools and can hand over. Their output is the result of the call, and
/// nothing of it is published, so the other role would never receive it.
fn check_handoffs(
    called: &[Vec<LinkedRole>],
    handoffs: &[Vec<LinkedRole>],
    names: &[&str],
    problems: &Problems,
) {
    let mut reported = BTreeSet::new();
    for (caller, targets) in called.iter().enumerate() {
        for target in targets {
            let role = target.role.index();
            let Some(to) = handoffs.get(role).and_then(|handoffs| handoffs.first()) else {
                continue;
            };
            if !reported.insert(role) {
                continue;
            }
            let (name, other) = (names[role], names[to.role.index()]);
            let message = format!(
                "`{name}` is a tool of `{}`, which receives its answer, so it cannot hand over to `{other}`",
                names[caller]
            );
            let problem = problems.at(&to.span, message);
            let problem = problem.also(target.span.clone(), "it is called as a tool here");
            problems.add(problem.hint(if to.role.index() == caller {
                format!("remove `handoff` from `{name}`: `{other}` receives its answer anyway")
            } else {
                format!(
                    "remove `handoff` from `{name}`; it can call `{other}` itself: `[[role.tool]]` with `role = \"{other}\"`"
                )
            }));
        }
    }
}

/// Reports roles that call themselves, and ways that are too long. `called` has the roles that each
/// role can call, `names` the names of the roles.
fn check_role_calls(called: &[Vec<LinkedRole>], names: &[&str], problems: &Problems) {
    let depths = depths(called);
    let mut seen = vec![false; called.len()];
    for start in 0..called.len() {
        if depths[start].is_none() && !seen[start] {
            report_cycle(called, &depths, names, start, &mut seen, problems);
        }
    }
    for (role, depth) in depths.iter().enumerate() {
        if *depth != Some(MAX_ROLE_CALLS + 1) {
            continue;
        }
        let deepest = called[role]
            .iter()
            .find(|to| depths[to.role.index()] == Some(MAX_ROLE_CALLS));
        if let Some(to) = deepest {
            let message = format!(
                "`{}` calls roles that call others, more than {MAX_ROLE_CALLS} one after another",
                names[role]
            );
            let problem = problems.at(&to.span, message);
            problems.add(problem.hint("let fewer roles call each other"));
        }
    }
}

/// Returns, for each role, how many calls lead from it one after another at most. It is `None` for a
/// role from which calls lead to a cycle.
fn depths(called: &[Vec<LinkedRole>]) -> Vec<Option<usize>> {
    let mut callers = vec![Vec::new(); called.len()];
    for (caller, targets) in called.iter().enumerate() {
        for target in targets {
            callers[target.role.index()].push(caller);
        }
    }
    let mut unknown: Vec<usize> = called.iter().map(Vec::len).collect();
    let mut depths = vec![None; called.len()];
    let mut ready: Vec<usize> = (0..called.len())
        .filter(|role| unknown[*role] == 0)
        .collect();
    while let Some(role) = ready.pop() {
        let below = called[role].iter().filter_map(|to| depths[to.role.index()]);
        depths[role] = Some(below.max().map_or(0, |depth: usize| depth + 1));
        for caller in &callers[role] {
            unknown[*caller] -= 1;
            if unknown[*caller] == 0 {
                ready.push(*caller);
            }
        }
    }
    depths
}

/// Reports the cycle to which calls lead from a role, unless it was seen before.
fn report_cycle(
    called: &[Vec<LinkedRole>],
    depths: &[Option<usize>],
    names: &[&str],
    start: usize,
    seen: &mut [bool],
    problems: &Problems,
) {
    let (mut way, mut at) = (Vec::new(), start);
    loop {
        seen[at] = true;
        let next = called[at]
            .iter()
            .find(|to| depths[to.role.index()].is_none());
        let Some(next) = next else { return };
        way.push((at, &next.span));
        at = next.role.index();
        if let Some(first) = way.iter().position(|(role, _)| *role == at) {
            way.drain(..first);
            break;
        }
        if seen[at] {
            return;
        }
    }
    let mut text = String::new();
    for (role, _) in &way {
        text += &format!("`{}` calls ", names[*role]);
    }
    let Some(((_, closing), others)) = way.split_last() else {
        return;
    };
    let message = format!("roles call each other in a circle: {text}`{}`", names[at]);
    let mut problem = problems.at(closing, message);
    if let Some((_, first)) = others.first() {
        problem = problem.also((*first).clone(), "the circle begins here");
    }
    problems.add(problem.hint("remove one of these tools: a role cannot work for itself"));
}

//! Tests that every limit is enforced, that the fault names it and the key to change, and that
//! other guests are not affected.

use std::time::{Duration, Instant};

use strata_core::record::fault::{Fault, FaultKind, Retryability};
use strata_host::plugin::Limits;
use strata_host::sandbox::Sandbox;

use crate::driver::{SANDBOX, block_on, call, gateway, limits, plugin, run_within};
use crate::guest::{self, Guest};

const SPIN: &str = "(loop $again (br $again)) unreachable";
const GUEST_TEXT: &str = "(call $ok (i32.const 640) (i32.const 5))";

/// Runs a guest that must fail in this way.
fn check(limits: Limits, guest: &[u8], kind: FaultKind, message: &str) -> Fault {
    let fault = run_within(limits, guest)
        .result
        .expect_err("the guest fails");
    assert_eq!(fault.kind, kind, "{fault:?}");
    assert!(fault.message.contains(message), "{}", fault.message);
    fault
}

#[test]
fn a_spinning_guest_runs_out_of_processor_time() {
    let limits = Limits {
        cpu: Duration::from_millis(50),
        ..limits()
    };
    let start = Instant::now();
    let fault = check(
        limits,
        &guest::running(SPIN),
        FaultKind::Cpu,
        "CPU limit of 50ms reached; raise `limits.cpu`",
    );
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert!(
        fault.backtrace[0].starts_with("run "),
        "{:?}",
        fault.backtrace
    );
}

#[test]
fn a_spinning_guest_runs_out_of_wall_time() {
    let limits = Limits {
        timeout: Duration::from_millis(50),
        ..limits()
    };
    let fault = check(
        limits,
        &guest::running(SPIN),
        FaultKind::Timeout,
        "timeout of 50ms reached; raise `limits.timeout`",
    );
    assert_eq!(fault.retryability, Retryability::Retryable);
    assert!(!fault.backtrace.is_empty());
}

#[test]
fn a_guest_that_spins_while_it_starts_is_stopped_too() {
    let items = "(func $start (loop $again (br $again))) (start $start)";
    let guest = Guest {
        items,
        ..Guest::default()
    }
    .build();
    let error = SANDBOX
        .load(&guest, strata_host::sandbox::Metering::Plain)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the component fails to describe itself (cpu): CPU limit of 1s reached"),
        "{error}"
    );
}

#[test]
fn a_guest_hanging_in_a_host_call_runs_out_of_wall_time_and_not_of_processor_time() {
    let limits = Limits {
        timeout: Duration::from_millis(100),
        cpu: Duration::from_millis(50),
        ..limits()
    };
    let guest = guest::running("(call $sleep (i32.const 60000)) unreachable");
    let fault = check(
        limits,
        &guest,
        FaultKind::Timeout,
        "timeout of 100ms reached while waiting in `clock.sleep`",
    );
    assert!(
        fault
            .backtrace
            .iter()
            .any(|frame| frame.starts_with("run ")),
        "{:?}",
        fault.backtrace
    );
}

#[test]
fn waiting_costs_no_processor_time() {
    let limits = Limits {
        cpu: Duration::from_millis(100),
        ..limits()
    };
    let guest = guest::running(&format!("(call $sleep (i32.const 300)) {GUEST_TEXT}"));
    let ended = run_within(limits, &guest);
    assert!(ended.result.is_ok(), "{ended:?}");
    assert!(ended.usage.cpu_us < 100_000, "{:?}", ended.usage);
}

#[test]
fn what_the_host_does_at_the_guests_bidding_costs_processor_time() {
    let limits = Limits {
        cpu: Duration::from_millis(50),
        ..limits()
    };
    let run = "(loop $again (call $log (i32.const 0) (i32.const 32768) (i32.const 65536)) (br $again)) unreachable";
    check(
        limits,
        &guest::running(run),
        FaultKind::Cpu,
        "raise `limits.cpu`",
    );
}

#[test]
fn memory_is_the_sum_of_all_memories_and_tables() {
    let limits = || Limits {
        memory_bytes: 1 << 20,
        ..limits()
    };
    let grow = "(loop $again (br_if $again (i32.ne (i32.const -1) (memory.grow (i32.const 1))))) unreachable";
    let message = "memory limit of 1 MiB reached (asked for 1.1 MiB); raise `limits.memory`";
    check(limits(), &guest::running(grow), FaultKind::Memory, message);

    let tables = "(table $t 1 funcref)";
    let grow = "(loop $again (br_if $again (i32.ne (i32.const -1)
        (table.grow $t (ref.null func) (i32.const 10000))))) unreachable";
    check(
        limits(),
        &guest::with(tables, grow),
        FaultKind::Memory,
        "raise `limits.memory`",
    );

    let memories = "(memory $b 1) (memory $c 1)";
    let grow =
        "(if (i32.eq (i32.const -1) (memory.grow $b (i32.const 6))) (then (return (i32.const 0))))
        (if (i32.eq (i32.const -1) (memory.grow $c (i32.const 7))) (then unreachable))
        (call $ok (i32.const 640) (i32.const 5))";
    check(
        limits(),
        &guest::with(memories, grow),
        FaultKind::Memory,
        "raise `limits.memory`",
    );
    let roomy = Limits {
        memory_bytes: 2 << 20,
        ..limits()
    };
    assert!(
        run_within(roomy, &guest::with(memories, grow))
            .result
            .is_ok()
    );
}

#[test]
fn the_elements_of_all_tables_together_are_bounded() {
    let limits = || Limits {
        table_elements: 1000,
        ..limits()
    };
    // A component has a small table for imported functions besides those of its author.
    let tables = "(table $a 400 funcref) (table $b 400 funcref)";
    let grow = "(if (i32.eq (i32.const -1) (table.grow $b (ref.null func) (i32.const 201))) (then unreachable))
        (call $ok (i32.const 640) (i32.const 5))";
    let fault = check(
        limits(),
        &guest::with(tables, grow),
        FaultKind::Memory,
        "; raise `limits.table_elements`",
    );
    assert!(
        fault
            .message
            .starts_with("limit of 1000 table elements reached (asked for 10"),
        "{}",
        fault.message
    );
    assert!(
        run_within(limits(), &guest::with(tables, &grow.replace("201", "100")))
            .result
            .is_ok()
    );
    let guest = Guest {
        items: "(table 2000 funcref)",
        ..Guest::default()
    }
    .build();
    check(
        limits(),
        &guest,
        FaultKind::Memory,
        "limit of 1000 table elements reached (asked for 2",
    );
}

#[test]
fn a_memory_or_table_that_is_too_large_from_the_start_is_a_memory_fault() {
    let limits = || Limits {
        memory_bytes: 1 << 20,
        ..limits()
    };
    let guest = Guest {
        memory: "40",
        ..Guest::default()
    }
    .build();
    check(
        limits(),
        &guest,
        FaultKind::Memory,
        "memory limit of 1 MiB reached (asked for 2.6 MiB)",
    );
    let guest = Guest {
        items: "(table 200000 funcref)",
        ..Guest::default()
    }
    .build();
    check(
        limits(),
        &guest,
        FaultKind::Memory,
        "memory limit of 1 MiB reached (asked for 1.7 MiB)",
    );
}

#[test]
fn however_a_guest_ends_that_got_no_memory_it_is_a_memory_fault_unless_it_got_most_of_it_after_all()
{
    let check = |run: &str, kind: FaultKind, message: &str| {
        let limits = Limits {
            memory_bytes: 1 << 20,
            ..limits()
        };
        check(limits, &guest::running(run), kind, message);
    };
    let refused = "(drop (memory.grow (i32.const 16)))";
    let (least, most) = (
        "(drop (memory.grow (i32.const 1)))",
        "(drop (memory.grow (i32.const 8)))",
    );
    let limit = "memory limit of 1 MiB reached";
    for end in [
        "unreachable",
        "(drop (i32.div_u (i32.const 1) (i32.const 0))) unreachable",
        "(drop (i32.load (i32.const -4))) unreachable",
    ] {
        check(&format!("{refused} {end}"), FaultKind::Memory, limit);
        // A language needs some memory to report the failure.
        check(
            &format!("{refused} {least} {end}"),
            FaultKind::Memory,
            limit,
        );
        check(&format!("{refused} {most} {end}"), FaultKind::Trap, "");
    }
}

#[test]
fn recursion_without_end_is_a_stack_fault() {
    let guest = guest::with(
        "(func $deep (call $deep) (call $deep))",
        "(call $deep) unreachable",
    );
    let fault = check(limits(), &guest, FaultKind::Stack, "call stack exhausted");
    assert!(fault.backtrace.len() <= 32);
    assert!(
        fault.backtrace[0].starts_with("deep "),
        "{:?}",
        fault.backtrace
    );
}

#[test]
fn fuel_is_counted_and_counted_alike_each_time() {
    let run = format!(
        "(local $n i32) (loop $again
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 1000)))) {GUEST_TEXT}"
    );
    let guest = guest::running(&run);
    let within = |fuel: u64| {
        run_within(
            Limits {
                fuel: Some(fuel),
                ..limits()
            },
            &guest,
        )
        .result
    };
    let (mut short, mut enough) = (1, 1_000_000);
    assert!(within(enough).is_ok());
    while enough - short > 1 {
        let middle = u64::midpoint(short, enough);
        match within(middle) {
            Ok(_) => enough = middle,
            Err(_) => short = middle,
        }
    }
    let expected = format!("limit of {short} units of fuel reached; raise `limits.fuel`");
    for _ in 0..5 {
        let fault = within(short).unwrap_err();
        assert_eq!(
            (fault.kind, fault.message.as_str()),
            (FaultKind::Fuel, expected.as_str())
        );
        assert!(within(enough).is_ok());
    }
}

#[test]
fn an_output_that_is_too_large_is_refused() {
    let output = "(call $ok (i32.const 32768) (i32.const 70000))";
    let message =
        "limit of 64 KiB of output reached by the output (came to 68.4 KiB); raise `limits.output`";
    check(
        limits(),
        &guest::running(output),
        FaultKind::OutputLimit,
        message,
    );
}

#[test]
fn what_is_piled_up_counts_as_it_arrives() {
    let many = |one: &str| guest::running(&format!("(loop $again {one} (br $again)) unreachable"));
    let limits = || Limits {
        host_calls: 1_000_000,
        ..limits()
    };
    let emit = "(call $emit (i32.const 8192) (i32.const 1000))";
    check(
        limits(),
        &many(emit),
        FaultKind::OutputLimit,
        "output reached by `environment.emit`",
    );
    let empty = "(call $emit (i32.const 0) (i32.const 0))";
    check(
        limits(),
        &many(empty),
        FaultKind::OutputLimit,
        "output reached by `environment.emit`",
    );
    let write = "(i64.store (i32.const 4096) (i64.const 0x31656c6f72)) (call $set (i32.const 4096) (i32.const 4)
        (i32.const 4100) (i32.const 1) (i32.const 4100) (i32.const 1) (i32.const 2048))";
    check(
        limits(),
        &many(write),
        FaultKind::OutputLimit,
        "output reached by a write to `state`",
    );
}

#[test]
fn a_list_that_names_the_same_memory_over_and_over_is_refused_before_it_is_copied() {
    // 65,536 recipients of 64 KiB each: 4 GiB for the host, 512 KiB for the guest.
    let guest = Guest {
        memory: "20",
        run: "(local $at i32) (local.set $at (i32.const 131072))
            (loop $again
                (i32.store (local.get $at) (i32.const 32768))
                (i32.store (i32.add (local.get $at) (i32.const 4)) (i32.const 65536))
                (local.set $at (i32.add (local.get $at) (i32.const 8)))
                (br_if $again (i32.lt_u (local.get $at) (i32.const 655360))))
            (call $emit_raw (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 0) (i32.const 0) (i32.const 131072) (i32.const 65536)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 2048))
            unreachable",
        ..Guest::default()
    };
    check(
        limits(),
        &guest.build(),
        FaultKind::OutputLimit,
        "handed over more than 24 MiB at once, more than its memory",
    );
}

#[test]
fn calling_the_host_too_often_is_a_host_fault_like_others() {
    let run = "(loop $again (drop (call $now)) (br $again)) unreachable";
    let message = "limit of 1024 host calls reached in `clock.unix-time-ms` (came to 1025); raise `limits.host_calls`";
    let fault = check(limits(), &guest::running(run), FaultKind::Host, message);
    assert_eq!(fault.retryability, Retryability::Retryable);
}

#[test]
fn what_goes_to_the_host_and_comes_from_it_is_one_sum() {
    let limits = || Limits {
        host_bytes: 1000,
        host_calls: 1_000_000,
        ..limits()
    };
    let many = |one: &str| guest::running(&format!("(loop $again {one} (br $again)) unreachable"));
    let from = "(call $random (i32.const 300) (i32.const 2048))";
    let message = "limit of 1000 bytes to and from the host reached in `random.bytes` (came to 1.3 KiB); raise";
    check(limits(), &many(from), FaultKind::Host, message);
    let to = "(call $get (i32.const 8192) (i32.const 300) (i32.const 8192) (i32.const 10) (i32.const 2048))";
    check(
        limits(),
        &many(to),
        FaultKind::Host,
        "reached in `state.get` (came to 1",
    );
    let emit = "(call $emit (i32.const 8192) (i32.const 300))";
    check(
        limits(),
        &many(emit),
        FaultKind::Host,
        "reached in `environment.emit` (came to 1",
    );
}

#[test]
fn a_log_that_is_too_long_is_cut_and_no_fault() {
    let run = format!(
        "(local $n i32) (loop $again
            (call $log (i32.const 1) (i32.const 640) (i32.const 5))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 3000)))) {GUEST_TEXT}"
    );
    assert!(run_within(limits(), &guest::running(&run)).result.is_ok());
    let run = run.replace(GUEST_TEXT, "unreachable");
    let fault = check(
        limits(),
        &guest::running(&run),
        FaultKind::Trap,
        "unreachable",
    );
    assert_eq!(
        fault.log[0],
        "log limit of 4 KiB reached, the rest is cut; raise `limits.log`"
    );
    assert_eq!(fault.log.len(), 21);
}

#[test]
fn a_bad_guest_does_not_hold_up_or_harm_its_siblings_on_the_same_thread() {
    let limits = || Limits {
        cpu: Duration::from_secs(1),
        memory_bytes: 1 << 20,
        ..limits()
    };
    let bad = [
        guest::running(SPIN),
        guest::running("unreachable"),
        guest::running("(loop $again (drop (memory.grow (i32.const 1))) (br $again)) unreachable"),
        guest::with(
            "(func $deep (call $deep) (call $deep))",
            "(call $deep) unreachable",
        ),
    ];
    let good = guest::running(&format!("(call $sleep (i32.const 20)) {GUEST_TEXT}"));
    let calls: Vec<_> = bad
        .iter()
        .map(|guest| call(guest, plugin(limits())))
        .collect();
    let good = call(&good, plugin(limits()));
    block_on(async {
        let local = tokio::task::LocalSet::new();
        let bad: Vec<_> = calls
            .into_iter()
            .map(|call| local.spawn_local(SANDBOX.call(call, gateway())))
            .collect();
        let ended = local.run_until(SANDBOX.call(good, gateway())).await;
        assert!(ended.result.is_ok(), "{ended:?}");
        // The first guest spins for a second; meanwhile the good one has slept its 20 ms.
        assert!(!bad[0].is_finished());
        local.await;
    });
}

//! An action in a language that strata-host does not know: it finds the longest word in its news.
//!
//! It uses no SDK, only the interfaces in `wit/` and the canonical ABI of the component model, which defines the layouts
//! of their types: a string or a list is a pointer and a length, a record is a struct as in C, and an option or a result
//! is a byte for the case, followed by the value.

const std = @import("std");

// The types of `types.wit` and `handler.wit` in the layout of the canonical ABI.

const Text = extern struct {
    ptr: [*]const u8,
    len: usize,

    fn of(bytes: []const u8) Text {
        return .{ .ptr = bytes.ptr, .len = bytes.len };
    }

    fn slice(self: Text) []const u8 {
        return self.ptr[0..self.len];
    }
};

fn List(comptime Item: type) type {
    return extern struct { ptr: [*]const Item, len: usize };
}

fn Option(comptime Value: type) type {
    return extern struct { is_some: bool, value: Value };
}

const Attempt = extern struct {
    number: u32,
    idempotency_key: Text,
    turn: Option(u32),
    call: Option(u32),
    deadline_ms: Option(f64),
};
const Profile = extern struct { name: Text, profile: Text, goal: Text, constraints: Text, desc: Text };
const Task = extern struct { text: Text, action: Option(Text) };
const Hop = extern struct { from: Text, to: List(Text) };
/// Images and files. This action neither reads nor creates any; only the alignment of an item matters.
const Parts = List(u32);
const Message = extern struct {
    id: Text,
    content: Text,
    data: Option(Text),
    parts: Parts,
    cause_by: Text,
    sent_from: Text,
    send_to: List(Text),
};
const Input = extern struct {
    role: Profile,
    action: Text,
    index: u32,
    config: Text,
    news: List(Message),
    outputs: List(Message),
    task: Option(Task),
    arguments: Option(Text),
};
const Output = extern struct { content: Text, data: Option(Text), parts: Parts, to: List(Text), route: List(Hop) };
const Failure = extern struct { kind: u8, message: Text };
const Manifest = extern struct {
    name: Text,
    version: Text,
    description: Text,
    config_schema: Option(Text),
    input_schema: Option(Text),
    output_schema: Option(Text),
    needs: List(Text),
};

/// Parameters of more than 16 flat values are passed as a pointer to all of them.
const Run = extern struct { attempt: Attempt, input: Input };

/// `result<output, failure>`, and `result<_, host-error>`.
const Outcome = extern struct { is_err: bool, value: extern union { ok: Output, err: Failure } };
const Stored = extern struct { is_err: bool, err: Failure };

// The functions of the host that are called. Only functions that are declared here become imports.

const log = struct {
    extern "strata:action/log@0.2.0" fn write(level: u32, ptr: [*]const u8, len: usize) void;
};
const state = struct {
    extern "strata:action/state@0.2.0" fn set(
        scope: [*]const u8,
        scope_len: usize,
        key: [*]const u8,
        key_len: usize,
        value: [*]const u8,
        value_len: usize,
        stored: *Stored,
    ) void;
};

// Memory. The host calls `cabi_realloc` to pass values. Memory is not freed, because an instance is dropped after one
// call.

const memory = std.heap.wasm_allocator;

export fn cabi_realloc(old: [*]const u8, old_len: usize, _: usize, new_len: usize) [*]u8 {
    // Aligned for any type. An empty value needs a valid pointer as well.
    const block = memory.alignedAlloc(u8, .@"8", @max(new_len, 1)) catch @trap();
    if (old_len > 0) @memcpy(block[0..old_len], old[0..old_len]);
    return block.ptr;
}

fn print(comptime format: []const u8, values: anytype) []const u8 {
    return std.fmt.allocPrint(memory, format, values) catch @trap();
}

// The exported functions.

var manifest: Manifest = undefined;

fn describe() callconv(.c) *const Manifest {
    manifest = .{
        .name = .of("longest-word"),
        .version = .of("0.1.0"),
        .description = .of("Finds the longest word of the news"),
        .config_schema = .{ .is_some = false, .value = .of("") },
        .input_schema = .{ .is_some = false, .value = .of("") },
        .output_schema = .{ .is_some = false, .value = .of("") },
        .needs = .{ .ptr = &.{}, .len = 0 },
    };
    return &manifest;
}

var outcome: Outcome = undefined;

fn run(call: *const Run) callconv(.c) *const Outcome {
    var longest: []const u8 = "";
    for (call.input.news.ptr[0..call.input.news.len]) |message| {
        var words = std.mem.tokenizeAny(u8, message.content.slice(), " \t\r\n.,;:!?");
        while (words.next()) |word| {
            if (word.len > longest.len) longest = word;
        }
    }
    if (longest.len == 0) return fail("looking for the longest word: there is none in the news");

    const line = print("attempt {d}: {s}", .{ call.attempt.number, longest });
    log.write(1, line.ptr, line.len);

    const length = print("{d}", .{longest.len});
    var stored: Stored = undefined;
    state.set("role", 4, "length", 6, length.ptr, length.len, &stored);
    if (stored.is_err) return fail(stored.err.message.slice());

    outcome = .{ .is_err = false, .value = .{ .ok = .{
        .content = .of(longest),
        .data = .{ .is_some = true, .value = .of(print("{{\"length\":{s}}}", .{length})) },
        .parts = .{ .ptr = &.{}, .len = 0 },
        .to = .{ .ptr = &.{}, .len = 0 },
        .route = .{ .ptr = &.{}, .len = 0 },
    } } };
    return &outcome;
}

fn fail(message: []const u8) *const Outcome {
    outcome = .{ .is_err = true, .value = .{ .err = .{ .kind = 0, .message = .of(message) } } };
    return &outcome;
}

comptime {
    @export(&describe, .{ .name = "strata:action/handler@0.2.0#describe" });
    @export(&run, .{ .name = "strata:action/handler@0.2.0#run" });
}

/// Logs the message of a panic, which then appears in the fault report, and traps.
pub const panic = std.debug.FullPanic(struct {
    fn call(message: []const u8, _: ?usize) noreturn {
        log.write(3, message.ptr, message.len);
        @trap();
    }
}.call);

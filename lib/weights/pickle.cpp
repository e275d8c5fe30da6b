#include "weights/pickle.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <array>
#include <unordered_map>

// The opcodes are documented in CPython's pickletools.py.

namespace trainctl::weights {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kMostValues = 2'000'000;
constexpr std::size_t kMostMarks = 10'000;
constexpr std::size_t kMostDimensions = 64;  // torch's limit

/// The meaning of a global: a type itself, or the result of REDUCE on its arguments.
enum class Role { type, ordered_dict, tensor, parameter, size };

struct Global {
  std::string_view name;
  Role role = Role::type;
  std::string_view dtype = {};
};

constexpr std::array<Global, 24> kGlobals{{
    {"collections.OrderedDict", Role::ordered_dict},
    {"torch._utils._rebuild_tensor_v2", Role::tensor},
    {"torch._utils._rebuild_parameter", Role::parameter},
    {"torch.Size", Role::size},
    {"torch.FloatStorage", Role::type, "F32"},
    {"torch.DoubleStorage", Role::type, "F64"},
    {"torch.HalfStorage", Role::type, "F16"},
    {"torch.BFloat16Storage", Role::type, "BF16"},
    {"torch.LongStorage", Role::type, "I64"},
    {"torch.IntStorage", Role::type, "I32"},
    {"torch.ShortStorage", Role::type, "I16"},
    {"torch.CharStorage", Role::type, "I8"},
    {"torch.ByteStorage", Role::type, "U8"},
    {"torch.BoolStorage", Role::type, "BOOL"},
    {"torch.float32"},
    {"torch.float64"},
    {"torch.float16"},
    {"torch.bfloat16"},
    {"torch.int64"},
    {"torch.int32"},
    {"torch.int16"},
    {"torch.int8"},
    {"torch.uint8"},
    {"torch.bool"},
}};

/// Globals that training frameworks save with the weights: settings, callbacks, counters. They
/// become values that are never used, and nothing is called. A name that ends with '.' is a prefix.
constexpr auto kIgnored = std::to_array<std::string_view>({
    "argparse.Namespace",
    "collections.Counter",
    "collections.defaultdict",
    "collections.deque",
    "datetime.",
    "enum.",
    "fractions.Fraction",
    "lightning.",
    "lightning_fabric.",
    "lightning_utilities.",
    "numpy.",
    "omegaconf.",
    "pathlib.",
    "pytorch_lightning.",
    "torch.ComplexDoubleStorage",
    "torch.ComplexFloatStorage",
    "torch.complex128",
    "torch.complex64",
    "torch.device",
    "torch.optim.",
    "torch.storage.UntypedStorage",
    "torch.torch_version.TorchVersion",
    "types.SimpleNamespace",
    "typing.Any",
    "uuid.UUID",
    "_codecs.encode",
});

/// Built-in types of Python without side effects, in "builtins." or, in protocol 2, "__builtin__.".
constexpr auto kIgnoredBuiltins = std::to_array<std::string_view>(
    {"bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "long",
     "object", "range", "set", "slice", "str", "tuple", "unicode", "xrange"});

bool is_ignored(std::string_view name) {
  for (const std::string_view module : {"builtins.", "__builtin__."}) {
    if (name.starts_with(module))
      return std::ranges::find(kIgnoredBuiltins, name.substr(module.size())) !=
             kIgnoredBuiltins.end();
  }
  return std::ranges::any_of(kIgnored, [&](std::string_view known) {
    return known.ends_with('.') ? name.starts_with(known) : name == known;
  });
}

/// The value of `PickleValue::integer` for an ignored global.
constexpr std::int64_t kIgnoredGlobal = -1;

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  Pickle run() {
    ENSURE(checkpoint, bytes_.size() <= kMostBytes,
           "the pickle has {} bytes, more than the limit of {} bytes",
           with_thousands(static_cast<long long>(bytes_.size())), with_thousands(kMostBytes));
    expect(byte() == 0x80, "does not have protocol 2, which torch.save writes");
    if (const unsigned protocol = byte(); protocol != 2)
      refuse(fmt::format("has protocol {}, but torch.save writes protocol 2", protocol));
    while (true) {
      opcode_at_ = at_;
      const unsigned char opcode = byte();
      if (opcode == '.') break;
      const bool known = constant(opcode) || collection(opcode) || structure(opcode);
      if (!known) refuse(fmt::format("has the unsupported opcode {:#04x}", unsigned{opcode}));
    }
    pickle_.root = pop();
    expect(stack_.empty() && marks_.empty() && at_ == bytes_.size(),
           "ends before its values are complete");
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void refuse(const std::string& complaint) const {
    throw Error(ErrorKind::checkpoint,
                fmt::format("the pickle is refused: at byte {} it {}", opcode_at_, complaint));
  }

  void expect(bool holds, const char* complaint) const {
    if (!holds) refuse(complaint);
  }

  /// Returns the lowest accessible stack position: values below it belong to an open mark.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::string_view take(std::size_t count) {
    expect(count <= bytes_.size() - at_, "is cut off");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  unsigned char byte() { return static_cast<unsigned char>(take(1)[0]); }

  std::uint64_t number(std::size_t size) { return from_little_endian(take(size)); }

  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    expect(end != std::string_view::npos, "is cut off");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  bool push(PickleValue value) {
    expect(pickle_.values.size() < kMostValues, "has more values than a state dict needs");
    pickle_.values.push_back(std::move(value));
    stack_.push_back(static_cast<PickleId>(pickle_.values.size() - 1));
    return true;
  }

  PickleId pop() {
    expect(stack_.size() > floor(), "pops a value from an empty stack");
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }

  PickleValue& top(PickleKind kind, const char* complaint) {
    expect(stack_.size() > floor(), "pops a value from an empty stack");
    PickleValue& value = pickle_.values[stack_.back()];
    expect(value.kind == kind, complaint);
    return value;
  }

  [[nodiscard]] bool is_opaque_top() const {
    return stack_.size() > floor() && pickle_[stack_.back()].kind == PickleKind::other;
  }

  std::vector<PickleId> pop_last(std::size_t count) {
    expect(stack_.size() - floor() >= count, "pops a value from an empty stack");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<PickleId> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    return values;
  }

  std::vector<PickleId> pop_to_mark() {
    expect(!marks_.empty(), "closes a group that it did not open");
    std::vector<PickleId> values = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }

  bool push_integer(std::int64_t value) {
    return push({.kind = PickleKind::integer, .integer = value});
  }

  bool constant(unsigned char opcode) {
    switch (opcode) {
      case 'N': return push({});
      case 0x88: return push({.kind = PickleKind::boolean, .integer = 1});
      case 0x89: return push({.kind = PickleKind::boolean});
      case 'J': return push_integer(static_cast<std::int32_t>(number(4)));
      case 'K': return push_integer(static_cast<std::int64_t>(number(1)));
      case 'M': return push_integer(static_cast<std::int64_t>(number(2)));
      case 0x8a: return long_integer(number(1));
      case 0x8b: return long_integer(number(4));
      case 'G': take(8); return push({.kind = PickleKind::other});
      case 'X': return push({.kind = PickleKind::text, .text = take(number(4))});
      default: return false;
    }
  }

  /// Reads a signed little-endian integer. Values above 8 bytes are seeds and the like, and are
  /// ignored.
  bool long_integer(std::uint64_t size) {
    if (size > 8) {
      take(size);
      return push({.kind = PickleKind::other});
    }
    std::uint64_t value = number(size);
    if (size > 0 && size < 8 && (value >> (8 * size - 1)) != 0)
      value |= ~std::uint64_t{0} << 8 * size;
    return push_integer(static_cast<std::int64_t>(value));
  }

  bool push_tuple(std::vector<PickleId> items) {
    return push({.kind = PickleKind::tuple, .items = std::move(items)});
  }

  bool collection(unsigned char opcode) {
    switch (opcode) {
      case ')': return push_tuple({});
      case 0x85: return push_tuple(pop_last(1));
      case 0x86: return push_tuple(pop_last(2));
      case 0x87: return push_tuple(pop_last(3));
      case 't': return push_tuple(pop_to_mark());
      case ']': return push({.kind = PickleKind::list});
      case '}': return push({.kind = PickleKind::dict});
      case 'a': return extend(PickleKind::list, pop_last(1));
      case 'e': return extend(PickleKind::list, pop_to_mark());
      case 's': return extend(PickleKind::dict, pop_last(2));
      case 'u': return extend(PickleKind::dict, pop_to_mark());
      default: return false;
    }
  }

  bool extend(PickleKind kind, const std::vector<PickleId>& items) {
    expect(kind == PickleKind::list || items.size() % 2 == 0, "has a key without a value");
    if (is_opaque_top()) return true;  // a list or dict of an ignored class
    std::vector<PickleId>& target =
        top(kind, kind == PickleKind::list ? "appends to a value that is not a list"
                                           : "sets a key of a value that is not a dict")
            .items;
    target.insert(target.end(), items.begin(), items.end());
    return true;
  }

  /// Handles opcodes that change the stack, store values or build objects.
  bool structure(unsigned char opcode) {
    switch (opcode) {
      case '(':
        expect(marks_.size() < kMostMarks, "is nested too deeply");
        marks_.push_back(stack_.size());
        return true;
      case '0': pop(); return true;
      case '1': pop_to_mark(); return true;
      case '2': {
        const PickleId id = pop();
        stack_.insert(stack_.end(), 2, id);
        return true;
      }
      case 'q': return remember(number(1));
      case 'r': return remember(number(4));
      case 'h': return recall(number(1));
      case 'j': return recall(number(4));
      case 'c': return global();
      case 'Q': return storage();
      case 'R':
      case 0x81: return call();
      case 'b':  // the attributes of an OrderedDict, which are irrelevant
        pop();
        if (!is_opaque_top()) top(PickleKind::dict, "changes a value that is not a dict");
        return true;
      default: return false;
    }
  }

  bool remember(std::uint64_t place) {
    const PickleId id = pop();
    stack_.push_back(id);
    memo_[place] = id;
    return true;
  }

  bool recall(std::uint64_t place) {
    const auto found = memo_.find(place);
    expect(found != memo_.end(), "reads a memo entry that does not exist");
    stack_.push_back(found->second);
    return true;
  }

  bool global() {
    const std::string_view module = line();
    const std::string name = fmt::format("{}.{}", module, line());
    const auto* found = std::ranges::find(kGlobals, std::string_view(name), &Global::name);
    if (found == kGlobals.end() && is_ignored(name))
      return push({.kind = PickleKind::type, .integer = kIgnoredGlobal});
    if (found == kGlobals.end())
      throw Error(
          ErrorKind::checkpoint,
          fmt::format("the pickle is refused: at byte {} it uses {}, which a state dict does not "
                      "need\nhint: {}",
                      opcode_at_, printable(std::string_view(name).substr(0, 200)), kSaveAdvice));
    return push({.kind = PickleKind::type,
                 .integer = found - kGlobals.begin(),
                 .text = found->name,
                 .dtype = found->dtype});
  }

  /// Parses ('storage', type, key, device, elements); ignores the device.
  bool storage() {
    const PickleValue& id = pickle_[pop()];
    expect(id.kind == PickleKind::tuple && id.items.size() == 5, "has an invalid storage");
    const auto at = [&](std::size_t i) -> const PickleValue& { return pickle_[id.items[i]]; };
    if (at(1).kind == PickleKind::type && at(1).integer == kIgnoredGlobal)
      return push({.kind = PickleKind::other});
    expect(at(0).kind == PickleKind::text && at(0).text == "storage" &&
               at(1).kind == PickleKind::type && !at(1).dtype.empty() &&
               at(2).kind == PickleKind::text && at(4).kind == PickleKind::integer &&
               at(4).integer >= 0,
           "has an invalid storage");
    return push({.kind = PickleKind::storage,
                 .integer = at(4).integer,
                 .text = at(2).text,
                 .dtype = at(1).dtype});
  }

  bool call() {
    const PickleId arguments = pop();
    expect(pickle_[arguments].kind == PickleKind::tuple, "calls with no arguments");
    const PickleValue& callee = pickle_[pop()];
    if (callee.kind == PickleKind::other) return push({.kind = PickleKind::other});
    expect(callee.kind == PickleKind::type, "calls a value that is not a name");
    if (callee.integer == kIgnoredGlobal) return push({.kind = PickleKind::other});
    const std::vector<PickleId> items = pickle_[arguments].items;
    switch (kGlobals[static_cast<std::size_t>(callee.integer)].role) {
      case Role::type: break;
      case Role::ordered_dict:
        expect(items.empty(), "passes arguments to OrderedDict");
        return push({.kind = PickleKind::dict});
      case Role::tensor: return tensor(items);
      case Role::parameter:
        expect(items.size() == 3 && pickle_[items[0]].kind == PickleKind::tensor,
               "makes a parameter from a value that is not a tensor");
        stack_.push_back(items[0]);
        return true;
      case Role::size:
        expect(items.size() == 1 && pickle_[items[0]].kind == PickleKind::tuple,
               "makes a torch.Size from a value that is not a tuple");
        stack_.push_back(items[0]);
        return true;
    }
    refuse(fmt::format("calls {}", callee.text));
  }

  /// Parses (storage, offset, sizes, strides, requires_grad, hooks), optionally with metadata.
  bool tensor(const std::vector<PickleId>& items) {
    if (!items.empty() && pickle_[items[0]].kind == PickleKind::other)
      return push({.kind = PickleKind::other});  // its storage has an ignored type
    expect(
        (items.size() == 6 || items.size() == 7) && pickle_[items[0]].kind == PickleKind::storage &&
            pickle_[items[1]].kind == PickleKind::integer && integers(items[2]) &&
            integers(items[3]) && pickle_[items[2]].items.size() == pickle_[items[3]].items.size(),
        "has an invalid tensor");
    return push({.kind = PickleKind::tensor,
                 .integer = pickle_[items[1]].integer,
                 .items = {items[0], items[2], items[3]}});
  }

  [[nodiscard]] bool integers(PickleId id) const {
    const PickleValue& value = pickle_[id];
    return value.kind == PickleKind::tuple && value.items.size() <= kMostDimensions &&
           std::ranges::all_of(value.items, [&](PickleId item) {
             return pickle_[item].kind == PickleKind::integer;
           });
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  Pickle pickle_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleId> memo_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes) { return Machine(bytes).run(); }

}  // namespace trainctl::weights

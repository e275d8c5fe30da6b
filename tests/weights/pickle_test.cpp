#include "weights/pickle.hpp"

#include "archives.hpp"
#include "base/error.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::weights;
using namespace trainctl::weights::testing;

namespace {

std::string pickle_error(const std::string& bytes) {
  try {
    read_pickle(bytes);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("read_pickle: a state dict is read without executing any code") {
  const std::string bytes = pickled(dict({{"w", tensor(storage("0", 4), 1, {2}, {1})}}));
  const Pickle pickle = read_pickle(bytes);
  const PickleValue& root = pickle[pickle.root];
  REQUIRE(root.kind == PickleKind::dict);
  REQUIRE(root.items.size() == 2);
  CHECK(pickle[root.items[0]].text == "w");
  const PickleValue& tensor = pickle[root.items[1]];
  REQUIRE(tensor.kind == PickleKind::tensor);
  CHECK(tensor.integer == 1);
  CHECK(pickle[tensor.items[0]].text == "0");
  CHECK(pickle[tensor.items[0]].dtype == "F32");
  CHECK(pickle[tensor.items[0]].integer == 4);
}

TEST_CASE("read_pickle: integers are signed, and those above 64 bits are skipped") {
  const auto value = [](const std::string& opcodes) {
    const std::string bytes = pickled(opcodes);
    const Pickle pickle = read_pickle(bytes);
    return pickle[pickle.root].kind == PickleKind::integer ? pickle[pickle.root].integer : 12345;
  };
  CHECK(value("K\xff") == 255);
  CHECK(value("M\xff\xff") == 65535);
  CHECK(value("J\xff\xff\xff\xff") == -1);
  CHECK(value(std::string("\x8a\x00", 2)) == 0);
  CHECK(value("\x8a\x01\xfe") == -2);
  CHECK(value(integer(~std::uint64_t{0} >> 1)) == 9223372036854775807);
  CHECK(value("\x8a\x09" + std::string(9, '\x01')) == 12345);
}

TEST_CASE("read_pickle: settings of frameworks and calls on them are skipped") {
  const std::string w = tensor(storage("0", 4), 0, {4}, {1});
  const auto kind_of = [](const std::string& opcodes) {
    const std::string bytes = pickled(opcodes);
    const Pickle pickle = read_pickle(bytes);
    return pickle[pickle.root].kind;
  };
  const std::string settings = global("argparse", "Namespace") + ")\x81}(" + text("lr") + "Nub";
  CHECK(kind_of(settings) == PickleKind::other);
  CHECK(kind_of(global("pytorch_lightning.utilities", "AttributeDict") + ")R(" + text("a") +
                "Nu") == PickleKind::other);
  CHECK(kind_of(global("numpy.core.multiarray", "scalar") + "(NNtR") == PickleKind::other);
  CHECK(kind_of(global("builtins", "set") + "(](NNetR") == PickleKind::other);
  CHECK(kind_of(dict({{"args", settings}, {"w", w}})) == PickleKind::dict);
  // A tensor with such a storage is not a tensor either.
  CHECK(kind_of(tensor(storage("0", 4, "ComplexFloatStorage"), 0, {4}, {1})) == PickleKind::other);
  CHECK_THAT(pickle_error(pickled(global("builtins", "getattr") + "NN\x86R")),
             Contains("uses builtins.getattr"));
  CHECK_THAT(pickle_error(pickled(global("numpyx", "a"))), Contains("uses numpyx.a"));
  CHECK_THAT(pickle_error(pickled(global("torch.hub", "load"))), Contains("uses torch.hub.load"));
}

TEST_CASE("read_pickle: a global that is not on the allowlist is an error with its name") {
  CHECK_THAT(
      pickle_error(pickled(global("os", "system") + text("rm") + "\x85R")),
      StartsWith("the pickle is refused: at byte 2 it uses os.system, which a state dict does not "
                 "need\nhint: save the weights alone"));
  CHECK_THAT(pickle_error(pickled("}" + global("builtins", "eval"))),
             Contains("at byte 3 it uses builtins.eval"));
  CHECK_THAT(pickle_error(pickled(global("torch", "load"))), Contains("torch.load"));
  CHECK_THAT(pickle_error(pickled(global("torch.FloatStorage", "x"))), Contains("refused"));
  CHECK_THAT(pickle_error(pickled(global("o\x1b[2J", "x"))), Contains("o\\x1b[2J.x"));
  CHECK(pickle_error(pickled(global("a", std::string(5000, 'x')))).size() < 500);
}

TEST_CASE("read_pickle: an unexpected call, argument or tensor is an error") {
  CHECK_THAT(pickle_error(pickled(global("torch", "FloatStorage") + ")R")),
             Contains("calls torch.FloatStorage"));
  CHECK_THAT(pickle_error(pickled(global("collections", "OrderedDict") + "K\x01\x85R")),
             Contains("passes arguments to OrderedDict"));
  CHECK_THAT(
      pickle_error(pickled(global("torch._utils", "_rebuild_parameter") + "K\x01K\x01K\x01\x87R")),
      Contains("not a tensor"));
  CHECK_THAT(pickle_error(pickled(global("torch._utils", "_rebuild_tensor_v2") + ")R")),
             Contains("has an invalid"));
  CHECK_THAT(pickle_error(pickled("K\x01)R")), Contains("calls a value that is not a name"));
  CHECK_THAT(pickle_error(pickled("K\x01}b")), Contains("changes a value that is not a dict"));
  CHECK_THAT(pickle_error(pickled("K\x01Q")), Contains("has an invalid storage"));
  const std::string window = tensor(storage("0", 4), 0, std::vector<std::uint64_t>(65, 1),
                                    std::vector<std::uint64_t>(65, 1));
  CHECK_THAT(pickle_error(pickled(window)), Contains("has an invalid tensor"));
  CHECK_THAT(pickle_error(pickled(tensor(storage("0", 4), 0, {2, 2}, {1}))),
             Contains("has an invalid tensor"));
}

TEST_CASE("read_pickle: invalid opcodes and stack operations are errors") {
  CHECK_THAT(pickle_error(""), Contains("cut off"));
  CHECK_THAT(pickle_error("\x80\x04N."), Contains("protocol 4"));
  CHECK_THAT(pickle_error("hello"), Contains("does not have protocol 2"));
  CHECK_THAT(pickle_error(pickled("")), Contains("pops a value from an empty stack"));
  CHECK_THAT(pickle_error(pickled("NN")), Contains("ends before"));
  CHECK_THAT(pickle_error(pickled("N(")), Contains("pops a value") || Contains("ends before"));
  CHECK_THAT(pickle_error(pickled("N") + "N"), Contains("ends before"));
  CHECK_THAT(pickle_error(pickled("Nt")), Contains("closes a group that it did not open"));
  CHECK_THAT(pickle_error(pickled("]N(0")), Contains("pops a value from an empty stack"));
  CHECK_THAT(pickle_error(pickled("h\x05")), Contains("does not exist"));
  CHECK_THAT(pickle_error(pickled("}(Nu")), Contains("key without a value"));
  CHECK_THAT(pickle_error(pickled("NNa")), Contains("appends to a value that is not a list"));
  CHECK_THAT(pickle_error(pickled("X\xff\xff\xff\x7fnope")), Contains("cut off"));
  CHECK_THAT(pickle_error(pickled("\x8b\xff\xff\xff\xff")), Contains("cut off"));
  CHECK_THAT(pickle_error(pickled("\x93")), Contains("opcode 0x93"));
}

TEST_CASE("read_pickle: recursion, nesting depth, memo entries and values are bounded") {
  CHECK(pickle_error(pickled("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a")) ==
        "accepted");
  CHECK(pickle_error(pickled(std::string(100'000, ']') + std::string(99'999, 'a'))) == "accepted");
  CHECK_THAT(pickle_error(pickled(std::string(20'000, '('))), Contains("nested too deeply"));
  CHECK(pickle_error(pickled("Nr\xff\xff\xff\xff")) == "accepted");
  CHECK_THAT(pickle_error(pickled(std::string(2'100'000, 'N'))), Contains("more values"));
  CHECK_THAT(pickle_error(std::string("\x80\x02", 2) + std::string(17 << 20, 'N')),
             Contains("more than the limit of"));
}

TEST_CASE("read_pickle: a file truncated at any byte is rejected") {
  const std::string whole = pickled(dict({{"w", tensor(storage("0", 4), 0, {2, 2}, {2, 1})}}));
  REQUIRE(pickle_error(whole) == "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(pickle_error(whole.substr(0, size)) != "accepted");
  }
}

#include "weights/torch_file.hpp"

#include "archives.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"

#include <map>

using namespace trainctl;
using namespace trainctl::weights;
using namespace trainctl::weights::testing;

namespace {

std::string torch_bytes(const std::string& name) {
  return golden::read(golden_folder() / ("torch/" + name));
}

std::string torch_error(const std::string& file, Verify verify = Verify::checksums) {
  try {
    read_torch_file(bytes_of(file), verify);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "accepted";
}

/// Formats a tensor like the golden file from PyTorch, for comparison.
std::string text_of(const TorchTensor& tensor) {
  std::vector<std::byte> copy;
  const auto bytes = row_major(tensor, copy);
  const Json shape = tensor.shape;
  return std::string(tensor.dtype) + shape.dump() +
         to_hex(sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

std::map<std::string, std::string> contents_of(const std::string& file,
                                               const std::string& section = {}) {
  std::map<std::string, std::string> all;
  for (const TorchTensor& tensor :
       read_torch_file(bytes_of(file), Verify::checksums, section).tensors)
    all[std::string(tensor.name)] = text_of(tensor);
  return all;
}

}  // namespace

TEST_CASE("read_torch_file: tensors of torch.save are bitwise equal to PyTorch's") {
  const Json golden = Json::parse(torch_bytes("weights.json"));
  REQUIRE(golden["files"].size() == 8);
  for (const Json& file : golden["files"]) {
    std::map<std::string, std::string> expected;
    for (const Json& tensor : file["tensors"])
      expected[tensor["name"]] = tensor["dtype"].get<std::string>() + tensor["shape"].dump() +
                                 tensor["sha256"].get<std::string>();
    CAPTURE(file["file"].get<std::string>());
    CHECK(contents_of(torch_bytes(file["file"]), file.value("section", "")) == expected);
  }
}

TEST_CASE("read_torch_file: one level of nesting is unwrapped, with a note") {
  const std::string lightning = torch_bytes("lightning.ckpt");
  const TorchFile file = read_torch_file(bytes_of(lightning), Verify::checksums);
  REQUIRE(file.notes.size() == 1);
  CHECK(file.notes[0] == "the tensors are from section 'state_dict', one of 10 keys of the file");
  CHECK(file.tensors[0].name == "model.conv.weight");
  const std::string w = tensor(storage("0", 4), 0, {4}, {1});
  CHECK_THAT(torch_error(torch_of(dict({{"a", dict({{"b", dict({{"w", w}})}})}}))),
             Contains("its keys are: a") && Contains("torch.save(model.state_dict()"));
  const std::string mixed = torch_of(dict({{"w", w}, {"_extra", "K\x05"}}));
  CHECK(read_torch_file(bytes_of(mixed), Verify::checksums).notes ==
        std::vector<std::string>{"ignored keys that are not tensors: _extra"});
}

TEST_CASE("read_torch_file: unsupported files are errors that name the cause") {
  CHECK_THAT(torch_error(torch_bytes("whole_model.pth")),
             Contains("uses torch.nn.modules.linear.Linear") && Contains("refused"));
  CHECK_THAT(torch_error(torch_bytes("protocol_4.pth")), Contains("protocol 4"));
  CHECK_THAT(torch_error(torch_bytes("script.pth")), Contains("TorchScript"));
  CHECK_THAT(torch_error(torch_bytes("compressed.pth")), Contains("compressed"));
  CHECK_THAT(torch_error(zip_of({{"a/b", "1"}})), Contains("without the file data.pkl"));
  CHECK_THAT(torch_error(torch_of("]")), Contains("no dict of named tensors"));
  CHECK_THAT(torch_error(torch_of(global("os", "system") + text("id") + "\x85R")),
             Contains("data.pkl: the pickle is refused: at byte 2 it uses os.system"));
}

TEST_CASE(
    "read_torch_file: a tensor outside its storage or a storage of another size is rejected") {
  const auto with = [](const std::string& opcodes) {
    return torch_error(torch_of(dict({{"w", opcodes}})));
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  CHECK(with(tensor(storage("0", 4), 0, {2, 2}, {1, 2})) == "accepted");
  CHECK(with(tensor(storage("0", 4), 3, {1, 1}, {kHuge, kHuge})) == "accepted");
  CHECK(with(tensor(storage("0", 4), 0, {3, 2}, {0, 1})) == "accepted");
  for (const auto& window :
       {tensor(storage("0", 4), 1, {4}, {1}), tensor(storage("0", 4), 0, {2, 2}, {3, 1}),
        tensor(storage("0", 4), ~std::uint64_t{0}, {1}, {1}),
        tensor(storage("0", 4), 0, {2}, {~std::uint64_t{0}}),
        tensor(storage("0", 4), 0, {~std::uint64_t{0}}, {1}), tensor(storage("0", 4), 4, {1}, {1}),
        tensor(storage("0", 4), 0, {kHuge, kHuge}, {0, 0}),
        tensor(storage("0", 4), kHuge, {3, 3}, {kHuge, kHuge})}) {
    CHECK_THAT(with(window), Contains("tensor 'w'") && Contains("exceed its storage"));
  }
  CHECK_THAT(with(tensor(storage("0", 4), 0, {1 << 20}, {0})), Contains("more than 8 times"));
  CHECK_THAT(with(tensor(storage("0", 5), 0, {1}, {1})),
             Contains("has 16 bytes, which is not the size of 5 elements of type F32"));
  CHECK_THAT(with(tensor(storage("0", 4, "HalfStorage"), 0, {1}, {1})), Contains("16 bytes"));
  CHECK_THAT(with(tensor(storage("../0", 4), 0, {1}, {1})), Contains("is not in the file"));
}

TEST_CASE("read_torch_file: duplicate or non-string keys and big-endian data are rejected") {
  const std::string w = tensor(storage("0", 4), 0, {4}, {1});
  CHECK_THAT(torch_error(torch_of(dict({{"w", w}, {"w", w}}))), Contains("has the key 'w' twice"));
  CHECK_THAT(torch_error(torch_of("}(K\x01" + w + "u")), Contains("not a string"));
  CHECK_THAT(torch_error(zip_of({{"a/data.pkl", pickled(dict({{"w", w}}))},
                                 {"a/byteorder", "big"},
                                 {"a/data/0", std::string(16, '\x01')}})),
             Contains("not little-endian"));
}

TEST_CASE("read_torch_file: a file truncated at any byte is rejected") {
  const std::string whole = torch_bytes("module.pth");
  REQUIRE(torch_error(whole) == "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK(torch_error(whole.substr(0, size)) != "accepted");
  }
}

TEST_CASE("read_torch_file: a file with any changed byte is rejected or gives the same tensors") {
  std::string file = torch_bytes("module.pth");
  const auto expected = contents_of(file);
  for (std::size_t at = 0; at < file.size(); ++at) {
    file[at] = static_cast<char>(file[at] ^ 0x5a);
    if (torch_error(file) == "accepted") {
      CAPTURE(at);
      CHECK(contents_of(file) == expected);
    }
    file[at] = static_cast<char>(file[at] ^ 0x5a);
  }
}

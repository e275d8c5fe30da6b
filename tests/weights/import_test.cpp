#include "weights/import.hpp"

#include "archives.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/safetensors.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <filesystem>
#include <iterator>
#include <set>
#include <string>

using namespace trainctl;
using namespace trainctl::weights;
using namespace trainctl::weights::testing;

namespace {

const std::filesystem::path kTorch = golden_folder() / "torch";

std::string error_text(const std::filesystem::path& file) {
  try {
    entries_of(file);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "accepted";
}

std::size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("import_weights: a Lightning checkpoint becomes safetensors with notes and source") {
  const TempFolder folder;
  import_weights(kTorch / "lightning.ckpt", folder / "w.safetensors");
  const safetensors::File file(folder / "w.safetensors");
  CHECK(file.metadata().at(kNotesKey) ==
        "the tensors are from section 'state_dict', one of 10 keys of the file");
  CHECK(file.metadata().at("source") == "lightning.ckpt");
  const Json golden = Json::parse(golden::read(kTorch / "weights.json"));
  std::size_t checked = 0;
  for (const Json& one : golden["files"]) {
    if (one["file"] != "lightning.ckpt") continue;
    for (const Json& tensor : one["tensors"]) {
      for (const safetensors::View& view : file.tensors()) {
        if (view.name != tensor["name"]) continue;
        const std::string_view bytes(reinterpret_cast<const char*>(view.bytes.data()),
                                     view.bytes.size());
        CHECK(to_hex(sha256(bytes)) == tensor["sha256"]);
        CHECK(Json(view.shape) == tensor["shape"]);
        ++checked;
      }
    }
  }
  CHECK(checked == file.tensors().size());
  CHECK(checked == 7);
}

TEST_CASE("import_weights: strided, shared and empty tensors are imported") {
  const TempFolder folder;
  import_weights(kTorch / "layouts.pth", folder / "w.safetensors");
  const safetensors::File file(folder / "w.safetensors");
  CHECK(file.tensors().size() == 21);
  CHECK(error_text(folder / "w.safetensors") == "accepted");
}

TEST_CASE("entries_of: the format is detected from the first bytes, not from the name") {
  const TempFolder folder;
  put_text(folder / "empty.pth", "");
  put_text(folder / "text.pth", "<html>not found</html>");
  CHECK(format_of(kTorch / "module.pth") == Format::torch);
  CHECK(error_text(kTorch / "module.pth") == "accepted");
  CHECK_THAT(error_text(kTorch / "old_format.pth"),
             Contains("old_format.pth: it has the format of torch.save before PyTorch 1.6") &&
                 Contains("torch.load("));
  CHECK_THAT(error_text(folder / "empty.pth"), Contains("it has only 0 bytes"));
  CHECK_THAT(error_text(folder / "text.pth"), Contains("not a safetensors file"));
  CHECK_THAT(error_text(folder / "none.pth"), Contains("cannot open it"));
  CHECK_THAT(error_text(folder.path()), Contains("cannot read it"));
}

TEST_CASE("import_weights: a malicious file is an error with its name, and no output is left") {
  const TempFolder folder;
  put_text(folder / "evil.pth", torch_of(global("os", "system") + text("id") + "\x85R"));
  CHECK_THAT(error_text(folder / "evil.pth"),
             Contains("evil.pth: data.pkl: the pickle is refused: at byte 2 it uses os.system"));
  CHECK_THROWS_WITH(import_weights(folder / "evil.pth", folder / "w.safetensors"),
                    Contains("uses os.system"));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("import_weights: a damaged tensor is a checksum error") {
  const TempFolder folder;
  std::string file = golden::read(kTorch / "mlp_7_classes.pth");
  file[file.size() / 2] = static_cast<char>(file[file.size() / 2] ^ 1);
  put_text(folder / "w.pth", file);
  CHECK(error_text(folder / "w.pth") == "accepted");  // it does not read the tensors
  CHECK_THROWS_WITH(import_weights(folder / "w.pth", folder / "w.safetensors"),
                    Contains("checksum") && Contains("data/0"));
}

TEST_CASE("import_weights: an output folder that is not writable is a resource error") {
  try {
    import_weights(kTorch / "module.pth", "/dev/null/w.safetensors");
    FAIL("it was written");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::resource);
  }
}

TEST_CASE("check_sha256: a file with another SHA-256 is rejected") {
  const TempFolder folder;
  put_text(folder / "w", std::string(3'000'000, 'a'));
  const std::string digest = to_hex(sha256(std::string(3'000'000, 'a')));
  CHECK_NOTHROW(check_sha256(folder / "w", digest));
  CHECK_THROWS_WITH(check_sha256(folder / "w", std::string(64, '0')),
                    Contains("w: its SHA-256 is " + digest));
}

TEST_CASE("import_weights: a section, a prefix and a key map select and rename tensors") {
  const std::string bytes = torch_of(
      dict({{"epoch", integer(3)},
            {"args", global("argparse", "Namespace") + ")\x81}(" + text("lr") + "Nub"},
            {"state_dict", dict({{"w", tensor(storage("0", 4), 0, {2}, {1})}})},
            {"state_dict_ema", dict({{"model.w", tensor(storage("0", 4), 1, {3}, {1})},
                                     {"model.b", tensor(storage("0", 4), 0, {1}, {1})},
                                     {"loss.w", tensor(storage("0", 4), 0, {4}, {1})}})}}));
  const TempFolder folder;
  put_text(folder / "timm.pth.tar", bytes);
  const auto names = [&](const Selection& selection) {
    import_weights(folder / "timm.pth.tar", folder / "w.safetensors", selection);
    const safetensors::File file(folder / "w.safetensors");
    std::set<std::string> all;
    for (const auto& tensor : file.tensors()) all.insert(tensor.name);
    return all;
  };
  using Names = std::set<std::string>;
  CHECK(names({}) == Names{"w"});
  CHECK(names({.section = "state_dict_ema"}) == Names{"model.w", "model.b", "loss.w"});
  const Renaming renaming{.prefix = "model.", .key_map = {{"b", "head.bias"}}};
  CHECK(names({.section = "state_dict_ema", .renaming = renaming}) == Names{"w", "head.bias"});
  CHECK_THROWS_WITH(
      names({.section = "ema"}),
      Contains("it has no section 'ema' with tensors; sections with tensors: state_dict, "
               "state_dict_ema"));
  CHECK_THROWS_WITH(
      names({.section = "state_dict_ema",
             .renaming = {.prefix = "net.", .key_map = {}, .prefix_option = "--prefix"}}),
      Contains("--prefix is 'net.', but no name in the file starts with it"));
  // Safetensors files can be renamed, too, but have no sections.
  fs::rename(folder / "w.safetensors", folder / "plain.safetensors");
  import_weights(folder / "plain.safetensors", folder / "w.safetensors",
                 {.section = {}, .renaming = {.prefix = "head.", .key_map = {}}});
  CHECK(safetensors::File(folder / "w.safetensors").tensors()[0].name == "bias");
  CHECK_THROWS_WITH(entries_of(folder / "plain.safetensors", {.section = "model"}),
                    Contains("has no sections"));
}

#include "weights/tensor_names.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using weights::Entry;
using weights::MatchOptions;
using Names = std::vector<std::string>;

namespace {

const std::vector<Entry> kModel{{"conv.weight", "F32", {2, 1, 3, 3}},
                                {"bn.weight", "F32", {2}},
                                {"fc.weight", "F32", {10, 2}},
                                {"fc.bias", "F32", {10}},
                                {"bn.num_batches_tracked", "I64", {}}};

const MatchOptions kOptions{.last_layer = "fc", .outputs = 10};

std::vector<Entry> renamed(std::vector<Entry> entries, const std::string& prefix) {
  for (Entry& entry : entries) entry.name.insert(0, prefix);
  return entries;
}

std::vector<Entry> with(std::vector<Entry> entries, const Entry& other) {
  for (Entry& entry : entries) {
    if (entry.name != other.name) continue;
    entry = other;
    return entries;
  }
  entries.push_back(other);
  return entries;
}

std::vector<Entry> without(std::vector<Entry> entries, const std::string& name) {
  std::erase_if(entries, [&](const Entry& entry) { return entry.name == name; });
  return entries;
}

std::string error_text(const std::vector<Entry>& file, const MatchOptions& options = kOptions) {
  try {
    weights::match(file, kModel, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("weight matching: tensors in any order are matched by name") {
  std::vector<Entry> file(kModel.rbegin(), kModel.rend());
  const weights::Match found = weights::match(file, kModel, kOptions);
  REQUIRE(found.pairs.size() == 5);
  for (const auto& [from, to] : found.pairs) CHECK(file[from].name == kModel[to].name);
  CHECK(found.notes.empty());
  CHECK(found.reinitialized.empty());
}

TEST_CASE(
    "weight matching: a last layer with another number of classes is reinitialized entirely") {
  const auto file = with(with(kModel, {"fc.weight", "F32", {1000, 2}}), {"fc.bias", "F32", {1000}});
  const weights::Match found = weights::match(file, kModel, kOptions);
  CHECK(found.reinitialized == Names{"fc.weight", "fc.bias"});
  CHECK(found.pairs.size() == 3);
  CHECK(found.missing.empty());
  CHECK(found.ignored.empty());
}

TEST_CASE("weight matching: whole=true also rejects another shape of the last layer") {
  const auto file = with(with(kModel, {"fc.weight", "F32", {1000, 2}}), {"fc.bias", "F32", {1000}});
  MatchOptions options = kOptions;
  options.whole = true;
  const std::string text = error_text(file, options);
  CHECK_THAT(text, Contains("fc.weight has the shape 1000x2 in the file and 10x2 in the model") &&
                       Contains("use the experiment that the weights were trained with"));
  CHECK(error_text(kModel, options) == "accepted");
}

TEST_CASE("weight matching: the error lists all other differences in shape and type") {
  const auto file =
      with(with(kModel, {"fc.weight", "F32", {10, 3}}), {"conv.weight", "F32", {2, 3, 3, 3}});
  CHECK_THAT(error_text(file),
             Contains("conv.weight has the shape 2x3x3x3 in the file and 2x1x3x3 in the model; "
                      "fc.weight has the shape 10x3 in the file and 10x2 in the model") &&
                 Contains("build the model that the file was saved from"));
  CHECK_THAT(error_text(with(kModel, {"fc.weight", "F32", {1000, 2}})),
             Contains("fc.weight has the shape 1000x2"));  // its bias has 10
  CHECK_THAT(error_text(with(kModel, {"bn.weight", "F32", {}})), Contains("a single number"));
  CHECK_THAT(error_text(with(kModel, {"bn.weight", "I32", {2}})),
             Contains("bn.weight has the dtype I32 in the file and F32 in the model"));
}

TEST_CASE("weight matching: another precision is converted, with a note") {
  const auto file = with(with(kModel, {"bn.weight", "BF16", {2}}), {"fc.bias", "BF16", {10}});
  CHECK(weights::match(file, kModel, kOptions).notes ==
        Names{"2 tensors converted from BF16 to F32"});
}

TEST_CASE("weight matching: missing and unexpected tensors are errors unless strict is false") {
  const auto file = with(without(kModel, "bn.weight"), {"aux.weight", "F32", {7}});
  CHECK_THAT(error_text(file), Contains("the file lacks 1 tensor of the model: bn.weight") &&
                                   Contains("the model lacks 1 tensor of the file: "
                                            "aux.weight") &&
                                   Contains("weights.strict: false"));
  MatchOptions loose = kOptions;
  loose.strict = false;
  const weights::Match found = weights::match(file, kModel, loose);
  CHECK(found.missing == Names{"bn.weight"});
  CHECK(found.ignored == Names{"aux.weight"});
  CHECK(error_text({{"x", "F32", {1}}}, loose) ==
        "the weights do not fit the model: no tensor of the file is in the model; the file has: x\n"
        "hint: rename the tensors with weights.prefix or weights.key_map");
}

TEST_CASE("weight matching: num_batches_tracked may be missing or additional") {
  const weights::Match found =
      weights::match(without(kModel, "bn.num_batches_tracked"), kModel, kOptions);
  CHECK(found.missing == Names{"bn.num_batches_tracked"});
  CHECK(found.pairs.size() == 4);
  const auto file = with(kModel, {"bn2.num_batches_tracked", "I64", {}});
  CHECK(weights::match(file, kModel, kOptions).ignored == Names{"bn2.num_batches_tracked"});
}

TEST_CASE("weight matching: prefixes of wrappers are removed from all names, with a note") {
  const weights::Match found =
      weights::match(renamed(kModel, "module._orig_mod."), kModel, kOptions);
  CHECK(found.pairs.size() == 5);
  CHECK(found.notes == Names{"'module.' was removed from the start of all names",
                             "'_orig_mod.' was removed from the start of all names"});
  CHECK(error_text(with(renamed(kModel, "module."), {"x", "F32", {1}})) != "accepted");
}

TEST_CASE(
    "weight matching: a prefix selects tensors and is removed, and a missing prefix is suggested") {
  const auto file = with(renamed(kModel, "model."), {"loss.weight", "F32", {3}});
  CHECK_THAT(error_text(file), EndsWith("\nhint: set weights.prefix: \"model.\""));
  MatchOptions options = kOptions;
  options.renaming.prefix = "model.";
  const weights::Match found = weights::match(file, kModel, options);
  CHECK(found.pairs.size() == 5);
  CHECK(found.ignored == Names{"loss.weight"});
  options.renaming.prefix = "net.";
  CHECK_THAT(error_text(file, options),
             Contains("weights.prefix is 'net.'") && Contains("model.conv.weight"));
}

TEST_CASE("weight matching: a key map renames tensors or prefixes, and conflicts are errors") {
  const auto file = with(without(renamed(kModel, "a."), "a.fc.bias"), {"head.b", "F32", {10}});
  MatchOptions options = kOptions;
  options.renaming.key_map = {{"a.", ""}, {"head.b", "fc.bias"}};
  CHECK(weights::match(file, kModel, options).pairs.size() == 5);
  options.renaming.key_map["head.c"] = "x";
  CHECK_THAT(error_text(file, options), Contains("the file has no tensor 'head.c'"));
  options.renaming.key_map = {{"a.", ""}, {"head.b", "fc.weight"}};
  CHECK_THAT(error_text(file, options), Contains("maps two tensors of the file to 'fc.weight'"));
}

TEST_CASE("last_layer_of: the layer of the last parameter") {
  CHECK(weights::last_layer_of({"a.weight", "heads.head.weight", "heads.head.bias"}) ==
        "heads.head");
  CHECK(weights::last_layer_of({"weight"}) == "weight");
  CHECK(weights::last_layer_of({}).empty());
}

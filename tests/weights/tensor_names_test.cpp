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

std::string complaint(const std::vector<Entry>& file, const MatchOptions& options = kOptions) {
  try {
    weights::match(file, kModel, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("equal names and shapes are copied, in whatever order the file has them") {
  std::vector<Entry> file(kModel.rbegin(), kModel.rend());
  const weights::Match found = weights::match(file, kModel, kOptions);
  REQUIRE(found.pairs.size() == 5);
  for (const auto& [from, to] : found.pairs) CHECK(file[from].name == kModel[to].name);
  CHECK(found.notes.empty());
  CHECK(found.redrawn.empty());
}

TEST_CASE("a last layer for another number of classes is fully reinitialized") {
  const auto file = with(with(kModel, {"fc.weight", "F32", {1000, 2}}), {"fc.bias", "F32", {1000}});
  const weights::Match found = weights::match(file, kModel, kOptions);
  CHECK(found.redrawn == Names{"fc.weight", "fc.bias"});
  CHECK(found.pairs.size() == 3);
  CHECK(found.missing.empty());
  CHECK(found.ignored.empty());
}

TEST_CASE("weights that are used as they are may not differ in the last layer either") {
  const auto file = with(with(kModel, {"fc.weight", "F32", {1000, 2}}), {"fc.bias", "F32", {1000}});
  MatchOptions options = kOptions;
  options.whole = true;
  const std::string text = complaint(file, options);
  CHECK_THAT(text, Contains("fc.weight is 1000x2 in the file and 10x2 in the model") &&
                       Contains("use the experiment that the weights were trained with"));
  CHECK(complaint(kModel, options) == "accepted");
}

TEST_CASE("any other difference of shape is an error that lists all of them") {
  const auto file =
      with(with(kModel, {"fc.weight", "F32", {10, 3}}), {"conv.weight", "F32", {2, 3, 3, 3}});
  CHECK_THAT(complaint(file),
             Contains("conv.weight is 2x3x3x3 in the file and 2x1x3x3 in the model; fc.weight is "
                      "10x3 in the file and 10x2 in the model") &&
                 Contains("build the model that the file was saved from"));
  CHECK_THAT(complaint(with(kModel, {"fc.weight", "F32", {1000, 2}})),
             Contains("fc.weight is 1000x2"));  // its bias has 10
  CHECK_THAT(complaint(with(kModel, {"bn.weight", "F32", {}})), Contains("a single number"));
  CHECK_THAT(complaint(with(kModel, {"bn.weight", "I32", {2}})),
             Contains("bn.weight holds I32 in the file and F32 in the model"));
}

TEST_CASE("numbers of another precision are converted, and said") {
  const auto file = with(with(kModel, {"bn.weight", "BF16", {2}}), {"fc.bias", "BF16", {10}});
  CHECK(weights::match(file, kModel, kOptions).notes == Names{"2 converted from BF16 to F32"});
}

TEST_CASE("what only one side has is an error, unless it is asked to be left out") {
  const auto file = with(without(kModel, "bn.weight"), {"aux.weight", "F32", {7}});
  CHECK_THAT(complaint(file), Contains("1 of the model's tensors are not in the file: bn.weight") &&
                                  Contains("1 of the file's tensors are not in the model: "
                                           "aux.weight") &&
                                  Contains("weights.strict: false"));
  MatchOptions loose = kOptions;
  loose.strict = false;
  const weights::Match found = weights::match(file, kModel, loose);
  CHECK(found.missing == Names{"bn.weight"});
  CHECK(found.ignored == Names{"aux.weight"});
  CHECK(complaint({{"x", "F32", {1}}}, loose) ==
        "the weights do not fit the model: no tensor of the file is in the model; the file has: x\n"
        "hint: rename the tensors with weights.prefix or weights.key_map");
}

TEST_CASE("files of before 2018 count no batches of their batch norms") {
  const weights::Match found =
      weights::match(without(kModel, "bn.num_batches_tracked"), kModel, kOptions);
  CHECK(found.missing == Names{"bn.num_batches_tracked"});
  CHECK(found.pairs.size() == 4);
  const auto file = with(kModel, {"bn2.num_batches_tracked", "I64", {}});
  CHECK(weights::match(file, kModel, kOptions).ignored == Names{"bn2.num_batches_tracked"});
}

TEST_CASE("what wrappers put in front of every name is removed, and said") {
  const weights::Match found =
      weights::match(renamed(kModel, "module._orig_mod."), kModel, kOptions);
  CHECK(found.pairs.size() == 5);
  CHECK(found.notes == Names{"'module.' was removed from the start of all names",
                             "'_orig_mod.' was removed from the start of all names"});
  CHECK(complaint(with(renamed(kModel, "module."), {"x", "F32", {1}})) != "accepted");
}

TEST_CASE("a prefix chooses and is removed, where it lacks, it is proposed") {
  const auto file = with(renamed(kModel, "model."), {"loss.weight", "F32", {3}});
  CHECK_THAT(complaint(file), EndsWith("\nhint: set weights.prefix: \"model.\""));
  MatchOptions options = kOptions;
  options.renaming.prefix = "model.";
  const weights::Match found = weights::match(file, kModel, options);
  CHECK(found.pairs.size() == 5);
  CHECK(found.ignored == Names{"loss.weight"});
  options.renaming.prefix = "net.";
  CHECK_THAT(complaint(file, options),
             Contains("weights.prefix is 'net.'") && Contains("model.conv.weight"));
}

TEST_CASE("names are mapped one by one or by what they begin with") {
  const auto file = with(without(renamed(kModel, "a."), "a.fc.bias"), {"head.b", "F32", {10}});
  MatchOptions options = kOptions;
  options.renaming.key_map = {{"a.", ""}, {"head.b", "fc.bias"}};
  CHECK(weights::match(file, kModel, options).pairs.size() == 5);
  options.renaming.key_map["head.c"] = "x";
  CHECK_THAT(complaint(file, options), Contains("the file has no tensor 'head.c'"));
  options.renaming.key_map = {{"a.", ""}, {"head.b", "fc.weight"}};
  CHECK_THAT(complaint(file, options), Contains("maps two tensors of the file to 'fc.weight'"));
}

TEST_CASE("the last layer is that of the last parameter") {
  CHECK(weights::last_layer_of({"a.weight", "heads.head.weight", "heads.head.bias"}) ==
        "heads.head");
  CHECK(weights::last_layer_of({"weight"}) == "weight");
  CHECK(weights::last_layer_of({}).empty());
}

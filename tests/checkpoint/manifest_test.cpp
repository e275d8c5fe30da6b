#include "checkpoint/manifest.hpp"

#include "base/error.hpp"
#include "checkpoint/folder.hpp"
#include "saves.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>

using namespace trainctl;
using namespace trainctl::checkpoint;

namespace {

Manifest complete() {
  Manifest manifest = saves::manifest_of(938);
  manifest.parts = {{"rank_0.part", 4096, 0xdeadbeef}, {"rank_1.part", 8192, 7}};
  return manifest;
}

std::string error_of(const Json& document) {
  try {
    from_json(document, "the manifest");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "accepted";
}

std::string error_of(const char* key, const Json& value) {
  Json document = to_json(complete());
  document[key] = value;
  return error_of(document);
}

}  // namespace

TEST_CASE("Manifest: a round trip through JSON restores every field") {
  const Manifest read = from_json(Json::parse(to_line(to_json(complete()))), "m");
  CHECK(read.epoch == 93);
  CHECK(read.step_in_epoch == 8);
  CHECK(read.global_step == 938);
  CHECK(read.world_size == 2);
  CHECK(read.reason == "every_n_steps");
  CHECK(read.value == complete().value);
  CHECK(read.monitor == "val/loss");
  CHECK(read.config_hash == "00ff");
  CHECK(read.written_at == "2026-11-21T05:01:48Z");
  CHECK(read.version == "1.2.3");
  CHECK(read.facts == complete().facts);
  REQUIRE(read.parts.size() == 2);
  CHECK(read.parts[0].file == "rank_0.part");
  CHECK(read.parts[0].bytes == 4096);
  CHECK(read.parts[0].checksum == 0xdeadbeef);
  CHECK(read.parts[1].bytes == 8192);
}

TEST_CASE("Manifest: a monitored value that is not finite is read as no value") {
  Manifest manifest = complete();
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    manifest.value = value;
    CHECK_FALSE(from_json(Json::parse(to_line(to_json(manifest))), "m").value.has_value());
  }
  manifest.value.reset();
  CHECK_FALSE(from_json(to_json(manifest), "m").value.has_value());
}

TEST_CASE("Manifest: keys are required and have a type, and unknown keys are an error") {
  const Json intact = to_json(complete());
  REQUIRE(error_of(intact) == "accepted");
  for (const auto& [key, value] : intact.items()) {
    Json without = intact;
    without.erase(key);
    CHECK_THAT(error_of(without), StartsWith("the manifest: ") && Contains("'" + key + "'"));
    CHECK(error_of(key.c_str(), Json::array({Json::array()})) != "accepted");
    CHECK(error_of(key.c_str(), true) != "accepted");
  }
  CHECK_THAT(error_of("color", "red"), Contains("unknown key 'color'"));
  CHECK_THAT(error_of("\x1b[2J", 1), Contains("unknown key '\\x1b[2J'"));
  for (const char* key : {"file", "bytes", "checksum"}) {
    Json without = intact;
    without["parts"][1].erase(key);
    CHECK_THAT(error_of(without), Contains("part 1: '" + std::string(key) + "' is missing"));
  }
  CHECK(error_of(Json::array()) != "accepted");
  CHECK(error_of(nullptr) != "accepted");
}

TEST_CASE("Manifest: numbers out of range are an error") {
  for (const char* key : {"epoch", "next_epoch", "step_in_epoch", "global_step"}) {
    CHECK_THAT(error_of(key, -1), Contains("must not be negative") || Contains("must be"));
    CHECK_THAT(error_of(key, 1.5), Contains("must be an integer"));
    CHECK_THAT(error_of(key, "7"), Contains("must be an integer"));
    CHECK_THAT(error_of(key, std::numeric_limits<std::uint64_t>::max()), Contains("too large"));
  }
  for (const std::int64_t world : {0L, -1L, 65'537L})
    CHECK_THAT(error_of("world_size", world), Contains("must be from 1 to 65536"));
  CHECK(error_of("world_size", std::int64_t{1} << 32) != "accepted");
  CHECK_THAT(error_of("world_size", 1), Contains("must have one entry per rank, got 2 for 1 rank"));
  CHECK_THAT(error_of("world_size", 3),
             Contains("must have one entry per rank, got 2 for 3 ranks"));
  CHECK_THAT(error_of("parts", Json::array()), Contains("got 0 for 2 ranks"));
  CHECK_THAT(error_of("facts", {{"torch", 2}}), Contains("'facts.torch' must be a string"));
}

TEST_CASE("Manifest: the file of a part must have its rank's name") {
  for (const char* name : {"../rank_0.part", "/etc/passwd", "a/rank_0.part", "..", "",
                           "rank_1.part", "rank_00.part"}) {
    Json document = to_json(complete());
    document["parts"][0]["file"] = name;
    CHECK_THAT(error_of(document), Contains("the part of rank 0 is named"));
  }
  Json document = to_json(complete());
  document["parts"][1]["bytes"] = -1;
  CHECK_THAT(error_of(document), Contains("'bytes' is out of range, got -1"));
  document["parts"][1]["bytes"] = 1;
  document["parts"][1]["checksum"] = std::int64_t{1} << 32;
  CHECK_THAT(error_of(document), Contains("'checksum' is out of range, got 4294967296"));
}

TEST_CASE("Manifest: a shared group refers to another group or to a file in the same folder") {
  Manifest manifest = complete();
  manifest.shared = {{.group = "averager/", .same_as = "model/"},
                     {"keeper/best.", "", "best.safetensors", 4096, 0xdeadbeef}};
  const Manifest read = from_json(Json::parse(to_line(to_json(manifest))), "m");
  REQUIRE(read.shared.size() == 2);
  CHECK(read.shared[0].group == "averager/");
  CHECK(read.shared[0].same_as == "model/");
  CHECK(read.shared[1].same_as.empty());
  CHECK(read.shared[1].file == "best.safetensors");
  CHECK(read.shared[1].bytes == 4096);
  CHECK(read.shared[1].checksum == 0xdeadbeef);
  for (const char* file : {"../best.safetensors", "a/best.safetensors", ".safetensors",
                           ".best.safetensors", "rank_0.part", "manifest", ""}) {
    manifest.shared[1].file = file;
    CHECK_THAT(error_of(to_json(manifest)),
               Contains("must be a file name that ends in .safetensors"));
  }
  manifest.shared[1] = manifest.shared[0];
  CHECK_THAT(error_of(to_json(manifest)), Contains("twice"));
  for (const char* text :
       {R"([{"group": "a", "same_as": ""}])", R"([{"group": "a"}])", R"([{"same_as": "a"}])",
        R"([{"group": "a", "same_as": "b", "file": "c"}])", R"(["a"])"})
    CHECK(error_of("shared", Json::parse(text)) != "accepted");
}

TEST_CASE("Manifest: the error for another format names it and the supported one") {
  for (const int format : {1, 2, 4}) {
    const Json document{{"format", format}, {"moment", 5}};
    CHECK_THROWS_AS(from_json(document, "m"), UnsupportedFormat);
    CHECK_THAT(error_of(document),
               StartsWith(fmt::format("the manifest: cannot read checkpoints of format {}: this "
                                      "version of trainctl reads format 3; the checkpoint is not "
                                      "changed",
                                      format)) &&
                   Contains("\nhint: finish the run with the version that wrote it"));
  }
  CHECK_THAT(error_of("format", 0), Contains("'format' must be at least 1, got 0"));
}

TEST_CASE("Manifest: epochs are counted from 1, also in folder names") {
  const Moment in_first_epoch{15, 0, true};
  const Moment after_first_epoch{40, 1, false};
  CHECK(folder_name(in_first_epoch) == "epoch=0001-mid-step=000015");
  CHECK(folder_name(after_first_epoch) == "epoch=0001-step=000040");
  CHECK(in_first_epoch.epoch_number() == 1);
  CHECK(after_first_epoch.epoch_number() == 1);
  CHECK(in_first_epoch < after_first_epoch);
  CHECK(folder_name(in_first_epoch) < folder_name(after_first_epoch));
  for (const std::int64_t step : {0, 5, 10, 15}) {  // an epoch has ten steps
    const Manifest manifest = saves::manifest_of(step);
    CHECK(to_json(manifest).at("epoch") == (step + 9) / 10);
    CHECK(to_json(manifest).at("next_epoch") == step / 10 + 1);
    CHECK(manifest.moment() == saves::moment_of(step));
    CHECK(folder_name(manifest.moment()).starts_with(fmt::format("epoch={:04}", (step + 9) / 10)));
  }
  CHECK_THAT(error_of("epoch", 93),
             Contains("but must be 94, because 'next_epoch' is 94 and 'step_in_epoch' is 8"));
}

TEST_CASE("parse_folder_name: only names that folder_name writes are accepted") {
  CHECK(folder_name({938, 3}) == "epoch=0003-step=000938");
  CHECK(folder_name({12'345'678, 12'345}) == "epoch=12345-step=12345678");
  CHECK(folder_name({938, 3, true}) == "epoch=0004-mid-step=000938");
  for (const Moment moment : {Moment{0, 0}, Moment{1, 0, true}, Moment{938, 3},
                              Moment{938, 3, true}, Moment{12'345'678, 12'345}}) {
    const auto parsed = parse_folder_name(folder_name(moment));
    CHECK(parsed == moment);
    CHECK(parsed->mid_epoch == moment.mid_epoch);
  }
  for (const char* name :
       {"", "last", "epoch=3-step=000938", "epoch=0003-step=938", "epoch=-003-step=000938",
        "epoch=0003-step=-00938", "epoch=0003-step=000938x", "xepoch=0003-step=000938",
        "epoch=0003", "-step=000938", "epoch=0003-step=99999999999999999999",
        "epoch=-step=", "epoch=0000-mid-step=000001", "epoch=0003-mid-mid-step=000938",
        "corrupt-epoch=0003-step=000938", "epoch=0003-step=000938/.."})
    CHECK_FALSE(parse_folder_name(name).has_value());
}

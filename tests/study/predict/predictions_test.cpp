#include "study/predict/predictions.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "spec/experiment/job.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <cmath>
#include <fstream>
#include <limits>

using namespace trainctl;
using study::Activation;
using study::Format;
using study::Output;
using study::OutputMeaning;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
void append(const fs::path& file, T value) {
  std::ofstream(file, std::ios::binary | std::ios::app)
      .write(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Writes the files of `ranks` processes: sample p has the logits p and -p, and label p.
events::Evaluated write_parts(const fs::path& folder, std::int64_t samples, int ranks) {
  fs::create_directories(folder / "parts");
  for (int rank = 0; rank < ranks; ++rank) {
    for (const char* what : {"logits", "targets", "names"})
      std::ofstream(spec::part_file(folder, what, rank), std::ios::app);
    for (std::int64_t p = rank; p < samples; p += ranks) {
      append(spec::part_file(folder, "logits", rank), static_cast<float>(p));
      append(spec::part_file(folder, "logits", rank), -static_cast<float>(p));
      append(spec::part_file(folder, "targets", rank), p);
      std::ofstream(spec::part_file(folder, "names", rank), std::ios::app)
          << to_line(Json("a \"" + std::to_string(p) + "\"\n.png")) << '\n';
    }
  }
  return {.split = "val",
          .checkpoint = "best",
          .samples = samples,
          .outputs = 2,
          .targets = "classes",
          .named = true};
}

study::PredictionPlan plan(Format format, std::vector<Output> outputs,
                           OutputMeaning meaning = {Activation::softmax, true}) {
  return {"out", format, std::move(outputs), meaning, /*replaces=*/false};
}

std::string error_of(const study::PredictionRequest& request, const OutputMeaning& meaning) {
  try {
    plan_predictions(request, meaning);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "accepted";
}

std::string read_all(const fs::path& file) {
  return read_file(file, 1 << 24, ReadFailure::resource);
}

}  // namespace

TEST_CASE("PredictionParts: rows are in the order of the split for any number of ranks") {
  for (const int ranks : {1, 2, 3}) {
    for (const std::int64_t samples : {0, 1, 2, 3, 4, 7, 100}) {
      TempFolder folder;
      const events::Evaluated evaluated = write_parts(folder.path(), samples, ranks);
      study::PredictionParts parts(folder.path(), ranks, evaluated);
      study::SampleRow row;
      std::int64_t count = 0;
      std::int64_t rows = 0;
      for (int rank = 0; rank < ranks; ++rank) rows += study::rows_of_rank(samples, rank, ranks);
      CHECK(rows == samples);
      for (; parts.next(row); ++count) {
        REQUIRE(row.index == count);
        REQUIRE(row.label == count);
        REQUIRE(row.logits == std::vector{static_cast<float>(count), -static_cast<float>(count)});
        REQUIRE(row.name == "a \"" + std::to_string(count) + "\"\n.png");
      }
      CHECK(count == samples);
    }
  }
}

TEST_CASE("PredictionParts: files that are too short, too long or missing are errors") {
  TempFolder folder;
  events::Evaluated evaluated = write_parts(folder.path(), 5, 2);
  CHECK_NOTHROW(study::PredictionParts(folder.path(), 2, evaluated));
  CHECK_THROWS_AS(study::PredictionParts(folder.path(), 3, evaluated), Error);
  evaluated.samples = 6;
  CHECK_THROWS_WITH(study::PredictionParts(folder.path(), 2, evaluated), Contains("rank_1.logits"));
  evaluated.samples = 4;
  CHECK_THROWS_WITH(study::PredictionParts(folder.path(), 2, evaluated), Contains("rank_0.logits"));
}

TEST_CASE("PredictionParts: without labels no targets are read and no column is written") {
  TempFolder folder;
  events::Evaluated evaluated = write_parts(folder.path(), 3, 2);
  evaluated.labeled = false;
  for (const int rank : {0, 1}) fs::remove(spec::part_file(folder.path(), "targets", rank));
  for (const std::int64_t numbers : {0, 2}) {
    evaluated.target_numbers = numbers;
    study::PredictionParts parts(folder.path(), 2, evaluated);
    study::SampleRow row;
    const auto csv = plan(Format::csv, {Output::logits});
    std::string text = head_of(csv, evaluated);
    while (parts.next(row)) append_row(text, csv, evaluated, row);
    CHECK_THAT(text, StartsWith("index,name,logit_0,logit_1\n0,"));
    CHECK_THAT(text, EndsWith(",2,-2\n"));
    const auto jsonl = plan(Format::jsonl, {Output::logits});
    std::string line;
    append_row(line, jsonl, evaluated, row);
    const Json json = Json::parse(line);
    CHECK_FALSE(json.contains("label"));
    CHECK_FALSE(json.contains("target"));
    CHECK(json["logits"].size() == 2);
  }
}

TEST_CASE("Predictions: text formats have class names instead of numbers") {
  const events::Evaluated evaluated{
      .split = "val", .checkpoint = "best", .samples = 1, .outputs = 2, .targets = "classes"};
  study::PredictionPlan csv = plan(Format::csv, {Output::classes, Output::probabilities});
  csv.class_names = {"a, \"b\"", "dog"};
  study::SampleRow row;
  row.label = 1;
  row.logits = {1000, -1000};
  std::string text = head_of(csv, evaluated);
  append_row(text, csv, evaluated, row);
  CHECK(text ==
        "index,label,class,class_prob,\"prob_a, \"\"b\"\"\",prob_dog\n"
        "0,dog,\"a, \"\"b\"\"\",1,1,0\n");
  study::PredictionPlan jsonl = csv;
  jsonl.format = Format::jsonl;
  jsonl.outputs.push_back(Output::logits);
  std::string line;
  append_row(line, jsonl, evaluated, row);
  const Json json = Json::parse(line);
  CHECK(json["label"] == "dog");
  CHECK(json["class"] == "a, \"b\"");
  CHECK(json["probabilities"]["dog"] == 0);
  CHECK(json["logits"]["a, \"b\""] == 1000);
}

TEST_CASE("distinct_names: the number is appended if two classes have the same name") {
  using Names = std::vector<std::string>;
  CHECK(study::distinct_names({"crane", "cat", "crane"}, 3) == Names{"crane_0", "cat", "crane_2"});
  CHECK(study::distinct_names({"cat", "dog"}, 3).empty());
  CHECK(study::distinct_names({}, 3).empty());
}

TEST_CASE("probabilities: softmax and sigmoid of large and infinite values and NaN") {
  const auto soft =
      study::probabilities(std::vector<float>{1000, 1000, -1000}, Activation::softmax);
  CHECK(soft == std::vector<float>{0.5F, 0.5F, 0});
  const auto sigmoid =
      study::probabilities(std::vector<float>{0, 1000, -1000, kInf, -kInf}, Activation::sigmoid);
  CHECK(sigmoid == std::vector<float>{0.5F, 1, 0, 1, 0});
  CHECK(study::probabilities(std::vector<float>{}, Activation::softmax).empty());
  for (const float value : study::probabilities(std::vector<float>{1, kNan}, Activation::softmax))
    CHECK(std::isnan(value));
}

TEST_CASE("largest: the first maximum, and NaN is larger than any number") {
  CHECK(study::largest(std::vector<float>{1, 3, 3, 2}) == 1);
  CHECK(study::largest(std::vector<float>{-kInf, -kInf}) == 0);
  CHECK(study::largest(std::vector<float>{1, kInf, kNan, kNan}) == 2);
}

TEST_CASE("meaning_of: loss and targets determine how outputs are interpreted") {
  const auto meaning = [](const char* loss, spec::Targets targets) {
    config::Stage stage;
    stage.type = loss;
    const OutputMeaning found = study::meaning_of(stage, targets);
    return std::pair(found.activation, found.one_class);
  };
  using spec::Targets;
  CHECK(meaning("cross_entropy", Targets::classes) == std::pair(Activation::softmax, true));
  CHECK(meaning("cross_entropy", Targets::numbers) == std::pair(Activation::softmax, true));
  CHECK(meaning("bce_with_logits", Targets::numbers) == std::pair(Activation::sigmoid, false));
  CHECK(meaning("bce_with_logits", Targets::classes) == std::pair(Activation::sigmoid, true));
  CHECK(meaning("focal", Targets::numbers) == std::pair(Activation::sigmoid, false));
  CHECK(meaning("focal", Targets::classes) == std::pair(Activation::softmax, true));
  CHECK(meaning("mse", Targets::numbers) == std::pair(Activation::none, false));
  CHECK(meaning("huber", Targets::classes) == std::pair(Activation::none, true));
  CHECK(meaning("kl_div_with_logits", Targets::numbers) == std::pair(Activation::softmax, true));
  CHECK(meaning("nll", Targets::classes) == std::pair(Activation::softmax, true));
  CHECK(meaning("of_a_plugin", Targets::classes) == std::pair(Activation::softmax, true));
  CHECK(meaning("of_a_plugin", Targets::numbers) == std::pair(Activation::none, false));
}

TEST_CASE("npy_header: equals the header that NumPy writes, aligned to 64 bytes") {
  const std::string floats = study::npy_header(plan(Format::npy, {Output::logits}), 3, 10);
  CHECK(floats.size() == 128);
  CHECK(floats.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
  CHECK(static_cast<unsigned char>(floats[8]) + 256 * static_cast<unsigned char>(floats[9]) ==
        static_cast<int>(floats.size()) - 10);
  CHECK_THAT(floats, Contains("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 10), }"));
  CHECK(floats.back() == '\n');
  const std::string classes = study::npy_header(plan(Format::npy, {Output::classes}), 7, 10);
  CHECK_THAT(classes, Contains("{'descr': '<i8', 'fortran_order': False, 'shape': (7,), }"));
  CHECK(classes.size() % 64 == 0);
  CHECK(study::known_bytes(plan(Format::npy, {Output::classes}), 7, 10) == classes.size() + 7 * 8);
  CHECK(study::known_bytes(plan(Format::npy, {Output::logits}), 3, 10) == floats.size() + 3 * 40);
  CHECK(study::known_bytes(plan(Format::csv, {Output::logits}), 3, 10) == 0);
  CHECK(study::part_bytes(3, 10, 8) == 3 * (10 * 4 + 8));
}

TEST_CASE("append_row: CSV quotes names, and JSON is valid for any number") {
  const events::Evaluated evaluated{.samples = 1, .outputs = 2, .named = true};
  const study::SampleRow row{
      .index = 4, .name = "cat, \"big\"\n.png", .label = 1, .targets = {}, .logits = {0.1F, kInf}};
  const auto csv = plan(Format::csv, {Output::logits, Output::classes});
  std::string text = head_of(csv, evaluated);
  append_row(text, csv, evaluated, row);
  CHECK(text ==
        "index,name,label,logit_0,logit_1,class,class_prob\n"
        "4,\"cat, \"\"big\"\"\n.png\",1,0.1,inf,1,nan\n");
  const auto jsonl = plan(Format::jsonl, {Output::classes, Output::logits});
  std::string line = head_of(jsonl, evaluated);
  append_row(line, jsonl, evaluated, row);
  const Json json = Json::parse(line);
  CHECK(json["name"] == row.name);
  CHECK(json["class"] == 1);
  CHECK(json["class_prob"] == "nan");
  CHECK(json["logits"][0].get<float>() == 0.1F);
  CHECK(json["logits"][1] == "inf");
  CHECK(line.find("0.1,") != std::string::npos);
}

TEST_CASE("append_row: regression has target and prediction columns") {
  const events::Evaluated two{.samples = 1, .outputs = 2, .target_numbers = 2};
  const events::Evaluated one{.samples = 1, .outputs = 1, .target_numbers = 1};
  const auto csv = plan(Format::csv, {Output::prediction}, {Activation::none, false});
  CHECK(head_of(csv, two) == "index,target_0,target_1,prediction_0,prediction_1\n");
  std::string text = head_of(csv, one);
  append_row(text, csv, one, {.index = 0, .targets = {2.5F}, .logits = {kNan}});
  CHECK(text == "index,target,prediction\n0,2.5,nan\n");
}

TEST_CASE("plan_predictions: rejects a file that cannot be written") {
  TempFolder folder;
  const OutputMeaning classes{Activation::softmax, true};
  const OutputMeaning many{Activation::sigmoid, false};
  const OutputMeaning numbers{Activation::none, false};
  const fs::path csv = folder / "out.csv";
  CHECK(error_of({.file = csv}, classes) == "accepted");
  CHECK_THAT(error_of({.file = folder / "out.txt"}, classes), Contains("--format"));
  CHECK(error_of({.file = folder / "out.txt", .format = "jsonl"}, classes) == "accepted");
  CHECK_THAT(error_of({.file = csv, .format = "xml"}, classes), Contains("csv, npy, jsonl"));
  CHECK_THAT(error_of({.file = csv, .outputs = {"clas"}}, classes),
             Contains("logits, probabilities, class, prediction"));
  CHECK_THAT(error_of({.file = csv, .outputs = {"class", "class"}}, classes), Contains("twice"));
  CHECK_THAT(error_of({.file = csv, .outputs = {""}}, classes), Contains("got ''"));
  CHECK_THAT(error_of({.file = csv, .outputs = {"class"}}, many), Contains("use probabilities"));
  CHECK_THAT(error_of({.file = csv, .outputs = {"class"}}, numbers), Contains("use prediction"));
  CHECK_THAT(error_of({.file = csv, .outputs = {"probabilities"}}, numbers),
             Contains("use prediction"));
  CHECK_THAT(error_of({.file = csv, .outputs = {"prediction"}}, classes), Contains("use class"));
  CHECK_THAT(error_of({.file = folder / "o.npy", .outputs = {"class", "logits"}}, classes),
             Contains("one array"));
  CHECK_THAT(error_of({.file = folder / "none" / "o.csv"}, classes), Contains("does not exist"));
  CHECK_THAT(error_of({.file = folder.path()}, classes), Contains("is a folder"));
  std::ofstream(csv) << "old";
  CHECK_THAT(error_of({.file = csv}, classes), Contains("--force"));
  CHECK(error_of({.file = csv, .replaces = true}, classes) == "accepted");
  for (const bool replaces : {false, true}) {
    CHECK_THAT(error_of({.file = "/dev/null", .format = "csv", .replaces = replaces}, classes),
               Contains("not a regular file"));
  }
  CHECK_THROWS_WITH(study::check_room(csv, ~std::uint64_t{0}), Contains("free disk space"));
}

TEST_CASE("plan_predictions: the default outputs depend on loss and format") {
  TempFolder folder;
  const auto default_outputs = [&](const char* name, const OutputMeaning& meaning) {
    return plan_predictions({.file = folder / name}, meaning).outputs;
  };
  using List = std::vector<Output>;
  CHECK(default_outputs("a.csv", {Activation::softmax, true}) ==
        List{Output::classes, Output::probabilities});
  CHECK(default_outputs("a.npy", {Activation::softmax, true}) == List{Output::probabilities});
  CHECK(default_outputs("a.csv", {Activation::sigmoid, false}) == List{Output::probabilities});
  CHECK(default_outputs("a.npy", {Activation::none, false}) == List{Output::prediction});
  CHECK(default_outputs("a.csv", {Activation::none, true}) == List{Output::classes});
}

TEST_CASE(
    "write_predictions: the file is the same for any number of ranks, without samples only a "
    "header") {
  for (const std::int64_t samples : {0, 1, 5}) {
    for (const Format format : {Format::csv, Format::npy, Format::jsonl}) {
      std::vector<std::string> files;
      for (const int ranks : {1, 2, 3}) {
        TempFolder folder;
        const events::Evaluated evaluated = write_parts(folder.path(), samples, ranks);
        study::PredictionPlan file_plan = plan(format, {Output::probabilities});
        file_plan.file = folder / "out";
        write_predictions({folder.path(), ranks, evaluated}, file_plan);
        files.push_back(read_all(file_plan.file));
        if (format == Format::npy)
          CHECK(files.back().size() == study::known_bytes(file_plan, samples, evaluated.outputs));
      }
      CHECK(files[1] == files[0]);
      CHECK(files[2] == files[0]);
      if (samples == 0 && format == Format::jsonl) CHECK(files[0].empty());
    }
  }
}

TEST_CASE("write_predictions: a failure keeps the old file and leaves no other file") {
  TempFolder folder;
  const events::Evaluated evaluated = write_parts(folder.path(), 5, 1);
  const fs::path out = folder / "results";
  fs::create_directories(out);
  std::ofstream(out / "out.csv") << "old";
  std::ofstream(spec::part_file(folder.path(), "names", 0)) << "\"one\"\nnot JSON\n";
  study::PredictionPlan file_plan = plan(Format::csv, {Output::logits});
  file_plan.file = out / "out.csv";
  CHECK_THROWS_WITH(write_predictions({folder.path(), 1, evaluated}, file_plan), Contains("names"));
  CHECK(read_all(out / "out.csv") == "old");
  CHECK(std::distance(fs::directory_iterator(out), fs::directory_iterator()) == 1);
}

TEST_CASE("write_predictions: replaces a file that appeared meanwhile only with `replaces`") {
  TempFolder folder;
  const events::Evaluated evaluated = write_parts(folder.path(), 5, 1);
  study::PredictionPlan file_plan = plan(Format::csv, {Output::logits});
  file_plan.file = folder / "out.csv";
  std::ofstream(file_plan.file) << "new";
  CHECK_THROWS_WITH(write_predictions({folder.path(), 1, evaluated}, file_plan),
                    Contains("--force"));
  CHECK(read_all(file_plan.file) == "new");
  file_plan.replaces = true;
  write_predictions({folder.path(), 1, evaluated}, file_plan);
  CHECK(read_all(file_plan.file).starts_with("index,"));
}

TEST_CASE("write_predictions: stops when requested and leaves no file") {
  TempFolder folder;
  const events::Evaluated evaluated = write_parts(folder.path(), 5, 1);
  study::PredictionPlan file_plan = plan(Format::csv, {Output::logits});
  file_plan.file = folder / "out.csv";
  const auto stop = [] { throw Error(ErrorKind::interrupted, "stopped by SIGINT"); };
  CHECK_THROWS_WITH(write_predictions({folder.path(), 1, evaluated}, file_plan, stop),
                    Contains("SIGINT"));
  CHECK_FALSE(fs::exists(file_plan.file));
}

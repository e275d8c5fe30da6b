#include "base/hash.hpp"
#include "report/invented.hpp"
#include "report/sinks/tensorboard_file.hpp"
#include "report/sinks/tensorboard_sink.hpp"
#include "support/catch.hpp"
#include "support/file_limit.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>

using namespace trainctl;
using namespace trainctl::report;
namespace tb = trainctl::report::tensorboard;

namespace {

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class Number>
Number at(std::string_view bytes, std::size_t offset) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

/// Returns the records of a file up to the first truncated or damaged one.
std::vector<std::string> records_of(const std::string& bytes) {
  std::vector<std::string> records;
  for (std::size_t i = 0; i + 12 <= bytes.size();) {
    const auto length = at<std::uint64_t>(bytes, i);
    if (at<std::uint32_t>(bytes, i + 8) != masked(bytes.substr(i, 8))) break;
    if (i + 16 + length > bytes.size()) break;
    const std::string record = bytes.substr(i + 12, length);
    if (at<std::uint32_t>(bytes, i + 12 + length) != masked(record)) break;
    records.push_back(record);
    i += 16 + length;
  }
  return records;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

TensorboardOptions options_for(const fs::path& folder) {
  TensorboardOptions options;
  options.folder = folder;
  options.host = "node 7/x";
  options.wall_time = [] { return 1'700'000'000.5; };
  options.config = "seed: 1\n";
  options.hparams = {"digits", {{"optimizer.lr", 0.1}, {"loader.shuffle", true}}, {"val/loss"}};
  return options;
}

bool any_has(const std::vector<std::string>& records, const std::string& text) {
  return std::ranges::any_of(
      records, [&](const std::string& record) { return record.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("TensorBoard: a record has its length and bytes, each with a masked CRC-32C") {
  const std::string record = tb::record_of("123456789");
  REQUIRE(record.size() == 8 + 4 + 9 + 4);
  CHECK(record.substr(0, 8) == std::string("\x09\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, 9) == "123456789");
  // The CRC-32C of "123456789" is e3069283; it is rotated right by 15 bits, and the constant is
  // added.
  const std::uint32_t expected = ((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u;
  CHECK(at<std::uint32_t>(record, 21) == expected);
  CHECK(records_of(record) == std::vector<std::string>{"123456789"});
  CHECK(tb::record_of("").size() == 16);
}

TEST_CASE("TensorBoard: messages have the field numbers of TensorBoard's protocol") {
  // Field 1 is the fixed64 wall_time, here 1, and field 3 is file_version.
  CHECK(tb::version_event(1) == std::string("\x09\0\0\0\0\0\0\xf0\x3f\x1a\x0d"
                                            "brain.Event:2",
                                            24));
  // Field 2 is step and field 7 is session_log, whose field 1 is the status START.
  CHECK(tb::start_event({0, 5}) == std::string("\x10\x05\x3a\x02\x08\x01", 6));
  // Field 5 is summary, whose field 1 is value; that has field 1, tag, and field 2, the fixed32
  // simple_value.
  CHECK(tb::scalars_event({0, 1}, {{"a", 1.0}}) == std::string("\x10\x01\x2a\x0a\x0a\x08\x0a\x01"
                                                               "a\x15\0\0\x80\x3f",
                                                               14));
}

TEST_CASE("TensorBoard: names of new event files sort after existing ones") {
  TempFolder folder;
  const fs::path first = tb::next_file(folder.path(), 1'700'000'000, "a b");
  CHECK(first.filename().string().starts_with("events.out.tfevents.1700000000.a_b."));
  CHECK_FALSE(tb::has_files(folder.path()));
  { std::ofstream(folder / "events.out.tfevents.1800000000.x.1.0") << "x"; }
  { std::ofstream(folder / "notes.txt") << "x"; }
  CHECK(tb::has_files(folder.path()));
  const fs::path next = tb::next_file(folder.path(), 1'700'000'000, "");
  CHECK(next.filename().string().starts_with("events.out.tfevents.1800000001.localhost."));
}

TEST_CASE("TensorBoard: a run writes scalars, config, hyperparameters and result to one file") {
  TempFolder folder;
  const auto sink = make_tensorboard_sink(options_for(folder / "tb"));
  sink->on_event(0, events::StepLogged{.global_step = 50, .loss = 0.5, .lr = 0.001});
  sink->on_event(1, events::StepLogged{.global_step = 50, .loss = 0.25});
  sink->on_event(0, invented::epoch(0));
  sink->close();
  sink->on_end({{"exit_code", 9}, {"verdict", "failed"}, {"message", "data:\n  a\nhint: b"}});
  const auto files = files_in(folder / "tb");
  REQUIRE(files.size() == 1);
  CHECK(files[0].filename().string().find("node_7_x") != std::string::npos);
  const auto records = records_of(golden::read(files[0]));
  CHECK_THAT(records.at(0), Contains("brain.Event:2"));
  CHECK(std::ranges::count_if(records, [](const std::string& record) {
          return record.find("step/train_loss") != std::string::npos;
        }) == 1);
  for (const char* text :
       {"val/accuracy", "time_share/data_wait", "throughput/samples_per_s", "machine/rss_mb",
        "_hparams_/session_start_info", "optimizer.lr", "_hparams_/experiment",
        "config/text_summary", "seed: 1", "result/text_summary", "**failed**: data:\n  a\nhint: b",
        "_hparams_/session_end_info"}) {
    CAPTURE(text);
    CHECK(any_has(records, text));
  }
}

TEST_CASE("TensorBoard: the hyperparameter session ends with the run, but not before a restart") {
  const auto ends = [](const Json& result) {
    TempFolder folder;
    const auto sink = make_tensorboard_sink(options_for(folder / "tb"));
    sink->on_event(0, invented::epoch(0));
    sink->close();
    sink->on_end(result);
    const auto records = records_of(golden::read(files_in(folder / "tb").at(0)));
    CHECK(any_has(records, "result/text_summary"));
    return any_has(records, "_hparams_/session_end_info");
  };
  CHECK(ends({{"exit_code", 7}}));
  CHECK_FALSE(ends({{"exit_code", 7}, {"will_restart", true}}));
  CHECK_FALSE(ends({{"exit_code", 75}}));
}

TEST_CASE("TensorBoard: a resumed run writes a separate file that starts at its step") {
  TempFolder folder;
  { make_tensorboard_sink(options_for(folder.path()))->on_event(0, invented::epoch(0)); }
  {
    const auto again = make_tensorboard_sink(options_for(folder.path()));
    again->on_event(0, events::Resumed{.epoch = 1, .global_step = 938});
    again->on_event(0, invented::epoch(1));
  }
  const auto files = files_in(folder.path());
  REQUIRE(files.size() == 2);
  const auto records = records_of(golden::read(files[1]));
  const std::string start = tb::start_event({1'700'000'000.5, 939});
  CHECK(records.at(1) == start);
  CHECK_FALSE(any_has(records, "_hparams_"));  // the first file has the session
}

TEST_CASE("TensorBoard: records are buffered while the disk is full, and the file stays readable") {
  TempFolder folder;
  const auto sink = make_tensorboard_sink(options_for(folder.path()));
  sink->on_event(0, events::StepLogged{.global_step = 1, .loss = 1});
  const fs::path file = files_in(folder.path()).at(0);
  const auto before = records_of(golden::read(file));
  {
    const FileLimit limit(fs::file_size(file) + 30);
    for (int i = 2; i < 6; ++i)
      sink->on_event(0, events::StepLogged{.global_step = i, .loss = 1.0 / i});
    const std::string bytes = golden::read(file);
    CHECK(records_of(bytes) == before);
    CHECK(sink->take_warning());
  }
  sink->on_tick(1);
  sink->close();
  CHECK(records_of(golden::read(file)).size() == before.size() + 4);
}

TEST_CASE("TensorBoard: a histogram contains only finite values") {
  const std::vector<double> values{1, 2, 3, 4, std::nan(""), 1.0 / 0.0};
  CHECK(tb::histogram_event({0, 0}, "h", histogram_of(std::vector<double>{std::nan("")})).empty());
  CHECK_FALSE(tb::histogram_event({0, 0}, "h", histogram_of(values)).empty());
  // Field 5 of the value is histo, whose field 1 is min. One value gives one bucket.
  const std::string one = tb::histogram_event({0, 0}, "h", histogram_of(std::vector<double>{2.0}));
  CHECK_THAT(one, Contains(std::string("\x09\0\0\0\0\0\0\0\x40", 9)));
}

TEST_CASE("MatrixRows: a matrix is drawn when it has all its rows") {
  MatrixRows rows;
  rows.add({.metric = "val/confusion_matrix", .epoch = 0, .row = 1, .counts = {0, 4}});
  CHECK_FALSE(rows.is_whole());
  rows.add({.metric = "val/confusion_matrix", .epoch = 0, .row = 0, .counts = {3, 0}});
  REQUIRE(rows.is_whole());
  const Raster raster = rows.draw();
  CHECK(raster.width == 160);
  CHECK(raster.height == 160);
  REQUIRE(raster.rgb.size() == 160 * 160 * 3);
  CHECK(raster.rgb.front() == 8);                 // the fraction is 1
  CHECK(raster.rgb[3 * 159] == 255);              // the fraction is 0
  CHECK(raster.rgb[3 * (160 * 159 + 159)] == 8);  // this is the last cell
  rows.add({.metric = "val/confusion_matrix", .epoch = 1, .row = 0, .counts = {3, 0}});
  CHECK_FALSE(rows.is_whole());
}

TEST_CASE("TensorBoard: images of matrices are written at the end of the epoch") {
  TempFolder folder;
  TensorboardOptions options = options_for(folder.path());
  options.picture = [](int width, int height, const std::vector<unsigned char>& rgb) {
    CHECK(rgb.size() == static_cast<std::size_t>(3 * width * height));
    return tb::Picture{width, height, "a png"};
  };
  const auto sink = make_tensorboard_sink(options);
  for (std::int64_t row = 0; row < 2; ++row)
    sink->on_event(0, events::TableRow{"val/confusion_matrix", 0, row, {1, 2}});
  sink->on_event(0, invented::epoch(0));
  sink->close();
  CHECK(any_has(records_of(golden::read(files_in(folder.path()).at(0))), "a png"));
}

TEST_CASE("TensorBoard: the worst predictions are pictures with their rank and classes") {
  TempFolder folder;
  const std::string png = std::string(16, 'x') + std::string("\0\0\1\2\0\0\0\5", 8);
  const WorstSample first{.name = "a", .label = "cat", .predicted = "dog", .png = png};
  const WorstSample without{.name = "b", .label = "cat", .predicted = "cat"};
  const auto file =
      write_worst_pictures(folder / "tensorboard", "node7", {1000, 9}, {first, without, first});
  const auto records = records_of(golden::read(file));
  REQUIRE(records.size() == 3);
  CHECK(records[1] == tb::image_event({1000, 9}, "worst_predictions/01 label cat predicted dog",
                                      {.width = 258, .height = 5, .png = png}));
  CHECK_THAT(records[2], Contains("worst_predictions/03 "));
  CHECK_THROWS_WITH(write_worst_pictures(folder.path(), "node7", {1000, 9}, {without}),
                    Contains("there are no pictures"));
}

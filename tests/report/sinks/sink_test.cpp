#include "report/sinks/sink.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "report/invented.hpp"
#include "report/text/table.hpp"
#include "support/catch.hpp"
#include "support/file_limit.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>

using namespace trainctl;
using namespace trainctl::report;

TEST_CASE("CsvSink: epochs.csv and timing.csv have all columns from the first row on") {
  TempFolder folder;
  const auto sink = make_csv_sink(folder.path(), {"train/loss", "val/loss", "val/accuracy"});
  auto without_validation = invented::epoch(0);
  without_validation.metrics.resize(1);
  sink->on_event(0, without_validation);
  sink->on_event(0, invented::epoch(1));
  sink->on_event(1, invented::epoch(1));
  sink->close();
  check_golden("report/epochs.csv", golden::read(folder / "epochs.csv"));
  check_golden("report/timing.csv", golden::read(folder / "timing.csv"));
}

TEST_CASE("CsvSink: a resumed run appends to its files") {
  TempFolder folder;
  make_csv_sink(folder.path(), {})->on_event(0, invented::epoch(0));
  make_csv_sink(folder.path(), {})->on_event(0, invented::epoch(1));
  const auto lines = golden::lines_of(golden::read(folder / "epochs.csv"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].starts_with("epoch,step,lr,train/loss,val/loss,val/accuracy,wall_s,"));
  CHECK(lines[2].starts_with("2,1876,0.001,0.125,"));
}

TEST_CASE("CsvFile: a new column is added to every row, and a truncated last line is completed") {
  TempFolder folder;
  const auto path = folder / "x.csv";
  const CsvField a{"a,b", "1"};
  const CsvField b{"c", "2"};
  CsvFile(path).append(std::vector{a});
  { std::ofstream(path, std::ios::app) << "cut"; }
  CsvFile file(path);
  file.append(std::vector{a});
  file.append(std::vector{b, a});
  file.append(std::vector{a});
  CHECK(golden::read(path) == "\"a,b\",c\n1,\ncut,\n1,\n1,2\n1,\n");
}

TEST_CASE("metrics.jsonl: elapsed time continues where the earlier attempt ended") {
  TempFolder folder;
  make_jsonl_sink(folder.path())->on_event(0, invented::epoch(0));
  make_jsonl_sink(folder.path())->on_event(0, invented::epoch(1));
  const auto lines = golden::lines_of(golden::read(folder / "metrics.jsonl"));
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], Contains("\"elapsed_s\":4.5"));
}

TEST_CASE("metrics.jsonl: has one object per logged step and per epoch") {
  TempFolder folder;
  const auto sink = make_jsonl_sink(folder.path());
  sink->on_event(
      0, events::StepLogged{.global_step = 50, .loss = 0.5, .lr = 0.001, .elapsed_s = 0.25});
  sink->on_event(
      0, events::StepLogged{.global_step = 100, .loss = 0.0 / 0.0, .lr = 0.001, .elapsed_s = 0.5});
  sink->on_event(0, invented::epoch(0));
  check_golden("report/metrics.jsonl", golden::read(folder / "metrics.jsonl"));
}

TEST_CASE("sinks: a validation within an epoch has its step and epoch, counted from 1") {
  TempFolder folder;
  std::string err;
  const events::Validated validated{
      .epoch = 1, .global_step = 1500, .metrics = {{"val/loss", 0.125}}, .improved = true};
  make_jsonl_sink(folder.path())->on_event(0, validated);
  make_csv_sink(folder.path(), {})->on_event(0, validated);
  make_console_sink({.results = [](std::string_view) {},
                     .messages = [&](std::string_view text) { err += text; },
                     .results_style = {},
                     .messages_style = {},
                     .progress = ProgressMode::none,
                     .metrics = {}})
      ->on_event(0, validated);
  CHECK(golden::read(folder / "metrics.jsonl") ==
        "{\"type\":\"validation\",\"epoch\":2,\"step\":1500,\"val/loss\":0.125}\n");
  CHECK(golden::read(folder / "validations.csv") == "epoch,step,val/loss\n2,1500,0.125\n");
  CHECK_THAT(err, Contains("epoch 2, step 1,500: val/loss 0.125") && EndsWith("(best)\n"));
}

TEST_CASE("ConsoleSink: rows are results, and the bar and warnings are messages") {
  std::string out;
  std::string err;
  const auto sink = make_console_sink({.results = [&](std::string_view text) { out += text; },
                                       .messages = [&](std::string_view text) { err += text; },
                                       .results_style = {},
                                       .messages_style = {},
                                       .progress = ProgressMode::tty,
                                       .metrics = {}});
  sink->on_event(0, events::RunStarted{.max_epochs = 5});
  sink->on_event(0, events::Progress{.step_in_epoch = 1, .steps_in_epoch = 2});
  sink->on_tick(0);
  sink->on_tick(1);
  sink->on_event(1, events::Warning{"slow\x1b[2J disk"});
  CHECK_THAT(err, Contains("epoch 1/5") && Contains("\r\x1b[Kwarning: slow\\x1b[2J disk\n"));
  sink->on_tick(1.1);
  sink->on_event(0, invented::epoch(0));
  CHECK(err.ends_with("\r\x1b[K"));
  CHECK_THAT(out, Contains("1/5"));
  sink->close();
}

TEST_CASE("ConsoleSink: the worker decides whether the table has a column of CUDA graphs") {
  for (const bool captures : {false, true}) {
    std::string out;
    const auto sink = make_console_sink({.results = [&](std::string_view text) { out += text; },
                                         .messages = [](std::string_view) {},
                                         .results_style = {.width = 160},
                                         .messages_style = {},
                                         .progress = ProgressMode::none,
                                         .metrics = {}});
    sink->on_event(0, events::RunStarted{.captures_steps = captures});
    sink->on_event(0, invented::epoch(0));
    CHECK((out.find(" graph") != std::string::npos) == captures);
  }
}

TEST_CASE("ConsoleSink: one line reports whether auto enables activation checkpointing") {
  std::string err;
  const auto sink = make_console_sink({.results = [](std::string_view) {},
                                       .messages = [&](std::string_view text) { err += text; },
                                       .results_style = {},
                                       .messages_style = {},
                                       .progress = ProgressMode::none,
                                       .metrics = {}});
  sink->on_event(0, events::RunStarted{.recomputes = true});
  CHECK(err.empty());
  sink->on_event(0, events::RunStarted{.recomputes = true, .recomputes_why = "9 of 6\x1b[2J GiB"});
  CHECK(err == "trainer.activation_checkpointing: 9 of 6\\x1b[2J GiB\n");
}

TEST_CASE(
    "ConsoleSink: reports the resumed checkpoint, and warns if the run is not bitwise identical") {
  std::string err;
  const auto sink = make_console_sink({.results = [](std::string_view) {},
                                       .messages = [&](std::string_view text) { err += text; },
                                       .results_style = {},
                                       .messages_style = {},
                                       .progress = ProgressMode::none,
                                       .metrics = {}});
  sink->on_event(
      0, events::Resumed{.path = "c/epoch=0001-step=000938", .epoch = 1, .global_step = 1938});
  CHECK(err == "resuming from c/epoch=0001-step=000938: epoch 2, step 1,938\n");
  err.clear();
  sink->on_event(0,
                 events::Resumed{.path = "c", .bitwise = false, .why_not = "2 threads, 1 before"});
  CHECK_THAT(
      err,
      EndsWith(
          "warning: the resumed run is not bitwise identical to an uninterrupted one: 2 threads, "
          "1 before\n"));
}

TEST_CASE("Backlog: lines are buffered while the disk is full and then written in order") {
  TempFolder folder;
  TempFolder plain;
  const std::vector<std::string> metrics{"train/loss", "val/loss", "val/accuracy"};
  std::vector<std::unique_ptr<Sink>> sinks;
  for (const auto* place : {&folder, &plain}) {
    sinks.push_back(make_csv_sink(place->path(), metrics));
    sinks.push_back(make_jsonl_sink(place->path()));
  }
  const auto send = [&](std::size_t first, const events::Event& event) {
    for (std::size_t i = first; i < first + 2; ++i) sinks[i]->on_event(0, event);
  };
  const std::vector<events::Event> all{
      invented::epoch(0), events::StepLogged{.global_step = 2000, .loss = 0.5, .lr = 0.001},
      invented::epoch(1), invented::epoch(2)};
  for (const rlim_t bytes : {rlim_t{150}, rlim_t{450}, rlim_t{0}}) {
    {
      const FileLimit limit(bytes);  // the second and third limits are below the current size
      send(0, all[0]);
      send(0, all[1]);
    }
    send(0, all[2]);
    send(0, all[3]);
    for (const events::Event& event : all) send(2, event);
  }
  for (const auto& sink : sinks) sink->close();
  for (const char* name : {"epochs.csv", "timing.csv", "metrics.jsonl"})
    CHECK(golden::read(folder / name) == golden::read(plain / name));
}

TEST_CASE("Backlog: a table gets its header even if the disk was full at first") {
  TempFolder folder;
  const auto sink = make_csv_sink(folder.path(), {});
  {
    const FileLimit limit(0);
    sink->on_event(0, events::TableRow{.metric = "val/confusion_matrix", .counts = {3, 4}});
  }
  sink->on_tick(1);
  CHECK(golden::read(folder / "confusion_matrix.csv") == "epoch,split,class,0,1\n1,val,0,3,4\n");
}

TEST_CASE("Backlog: an unwritable history is reported repeatedly, and is an error at the end") {
  TempFolder folder;
  const auto sink = make_jsonl_sink(folder.path());
  CHECK_FALSE(sink->take_warning());
  std::vector<std::string> warnings;
  bool failed = false;
  {
    const FileLimit limit(0);
    for (int tick = 0; tick < 60; ++tick) {
      sink->on_tick(100 + tick);
      sink->on_event(0, events::StepLogged{.global_step = tick});
      if (const auto warning = sink->take_warning()) warnings.push_back(*warning);
    }
    try {
      sink->close();
    } catch (const Error& error) {
      failed = error.kind() == ErrorKind::resource;
    }
  }
  CHECK(failed);
  REQUIRE(warnings.size() == 4);  // they come after 0, 5, 15 and 35 seconds
  CHECK_THAT(warnings[0],
             Contains("metrics.jsonl: File too large") && Contains("the run continues"));
  sink->on_tick(200);
  CHECK_THAT(sink->take_warning().value_or(""), Contains("buffered values are written"));
  CHECK_FALSE(sink->take_warning());
  CHECK(golden::lines_of(golden::read(folder / "metrics.jsonl")).size() == 60);
}

TEST_CASE("metrics.jsonl: synced after each epoch, but not after each step") {
  TempFolder folder;
  const fs::path pipe = folder / "metrics.jsonl";  // a FIFO cannot be synced
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const Fd reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader.valid());
  const auto sink = make_jsonl_sink(folder.path());
  sink->on_event(0, events::StepLogged{.global_step = 1});
  CHECK_FALSE(sink->take_warning());
  sink->on_event(0, invented::epoch(0));
  CHECK_THAT(sink->take_warning().value_or(""),
             Contains("cannot sync") && Contains("metrics.jsonl"));
}

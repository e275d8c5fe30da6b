#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "report/invented.hpp"
#include "report/sinks/sink.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <fstream>
#include <functional>
#include <thread>

using namespace trainctl;
using namespace trainctl::report;

namespace {

constexpr double kTimeout = 60;

bool wait_for(const std::function<bool()>& condition) {
  const double end = steady_clock().now() + kTimeout;
  while (!condition()) {
    if (steady_clock().now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

struct Listener {
  explicit Listener(const std::string& script) {
    options.command = {"sh", "-c", script};
    options.on = {"start", "step", "epoch", "warning", "end", "failed"};
    options.log = folder / "exec.log";
    options.start = {{"name", "digits"}, {"config", {{"seed", 1}}}};
    options.now = [] { return steady_clock().now(); };
  }
  TempFolder folder;
  ExecOptions options;
};

void end(Sink& sink, const Json& result) {
  sink.close();
  sink.on_end(result);
  sink.finish();
}

std::vector<Json> lines_in(const std::filesystem::path& file) {
  std::vector<Json> lines;
  for (const std::string& line : golden::lines_of(golden::read(file)))
    lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("ExecSink: a command receives start, events and end as lines of JSON") {
  Listener listener("");
  listener.options.command = {"sh", "-c",
                              "cat > '" + (listener.folder / "got").string() + "'; echo done >&2"};
  const auto sink = make_exec_sink(listener.options);
  sink->on_event(0, events::StepLogged{.epoch = 0, .global_step = 50, .loss = 0.0 / 0.0});
  sink->on_event(1, events::StepLogged{.global_step = 50});
  sink->on_event(1, events::Warning{"slow \"disk\"", {}});
  sink->on_event(0, invented::epoch(0));
  end(*sink, {{"exit_code", 0}, {"verdict", "ok"}});
  CHECK_FALSE(sink->take_warning());
  const auto lines = lines_in(listener.folder / "got");
  REQUIRE(lines.size() == 5);
  CHECK(lines[0]["type"] == "start");
  CHECK(lines[0]["config"]["seed"] == 1);
  CHECK(lines[1]["type"] == "step");
  CHECK(lines[1]["train/loss"] == "nan");
  CHECK(lines[2]["message"] == "slow \"disk\"");
  CHECK(lines[2]["rank"] == 1);
  CHECK(lines[3]["val/accuracy"] == 0.95);
  CHECK(lines[3]["epoch"] == 1);
  CHECK(lines[4]["type"] == "end");
  CHECK(lines[4]["result"]["verdict"] == "ok");
  CHECK(golden::read(listener.options.log) == "done\n");
}

TEST_CASE("ExecSink: a command receives only the selected events") {
  Listener listener("");
  listener.options.command = {"sh", "-c", "cat > '" + (listener.folder / "got").string() + "'"};
  listener.options.on = {"failed"};
  const auto sink = make_exec_sink(listener.options);
  sink->on_event(0, invented::epoch(0));
  end(*sink, {{"exit_code", 6}});
  const auto lines = lines_in(listener.folder / "got");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["type"] == "failed");
}

TEST_CASE("ExecSink: a command that does not read loses lines but does not block the run") {
  Listener listener("sleep 1000");
  listener.options.most_bytes = 100'000;
  listener.options.stop_after_s = 0.2;
  listener.options.kill_after_s = kTimeout;
  const auto sink = make_exec_sink(listener.options);
  const double begun = steady_clock().now();
  for (int i = 0; i < 20'000; ++i)
    sink->on_event(0, events::StepLogged{.global_step = i, .loss = 1});
  CHECK(steady_clock().now() - begun < kTimeout);
  end(*sink, {{"exit_code", 0}});
  const std::string warning = sink->take_warning().value_or("");
  CHECK_THAT(warning, Contains("did not exit within") && Contains("was stopped") &&
                          Contains("did not read") && Contains("lines"));
}

TEST_CASE("ExecSink: a slow command receives every line in full") {
  Listener listener("");
  const auto got = listener.folder / "got";
  listener.options.command = {
      "sh", "-c",
      "while read -r line; do printf '%s\\n' \"$line\" >> '" + got.string() + "'; done"};
  listener.options.stop_after_s = kTimeout;
  const auto sink = make_exec_sink(listener.options);
  for (int i = 0; i < 2000; ++i) sink->on_event(0, events::StepLogged{.global_step = i, .loss = 1});
  end(*sink, {{"exit_code", 0}});
  CHECK_FALSE(sink->take_warning());
  CHECK(lines_in(got).size() == 2002);
}

TEST_CASE("ExecSink: a command that exits is reported once with exit code and last output") {
  Listener listener("echo 'no such project' >&2; exit 3");
  const auto sink = make_exec_sink(listener.options);
  std::string warning;
  const bool is_reported = wait_for([&] {
    sink->on_event(0, events::StepLogged{.global_step = 1});
    sink->on_tick(0);
    warning = sink->take_warning().value_or("");
    return !warning.empty();
  });
  REQUIRE(is_reported);
  CHECK_THAT(warning,
             Contains("exited before the run ended (exit code 3)") && Contains("no such project"));
  sink->on_event(0, invented::epoch(0));
  sink->on_tick(1);
  CHECK_FALSE(sink->take_warning());
  end(*sink, {{"exit_code", 0}});
}

TEST_CASE("ExecSink: a command that ignores SIGTERM is killed in bounded time") {
  Listener listener("");
  const auto mark = listener.folder / "ready";
  listener.options.command = {
      "sh", "-c", "trap '' TERM; : > '" + mark.string() + "'; while :; do sleep 0.05; done"};
  listener.options.stop_after_s = 0.3;
  listener.options.kill_after_s = 0.3;
  const auto sink = make_exec_sink(listener.options);
  REQUIRE(wait_for([&] { return std::filesystem::exists(mark); }));
  const double begun = steady_clock().now();
  end(*sink, {{"exit_code", 0}});
  CHECK(steady_clock().now() - begun < kTimeout);
  CHECK_THAT(sink->take_warning().value_or(""), Contains("was killed"));
}

TEST_CASE("ExecSink: a command that fails at its end is reported") {
  Listener listener("cat > /dev/null; echo 'cannot upload' >&2; exit 4");
  const auto sink = make_exec_sink(listener.options);
  end(*sink, {{"exit_code", 0}});
  CHECK_THAT(sink->take_warning().value_or(""),
             Contains("failed (exit code 4)") && Contains("cannot upload"));
}

TEST_CASE("ExecSink: a command that cannot be started is a config error") {
  Listener listener("");
  listener.options.command = {"/no/such/program"};
  try {
    make_exec_sink(listener.options);
    FAIL("the command was started");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    CHECK_THAT(error.what(), Contains("cannot start '/no/such/program'"));
  }
}

TEST_CASE("ExecSink: a stop request ends the wait for a command") {
  Listener listener("sleep 1000");
  listener.options.stop_after_s = 1000;
  listener.options.kill_after_s = kTimeout;
  bool is_requested = false;
  int polls = 0;
  listener.options.is_stop_requested = [&] {
    is_requested = is_requested || ++polls > 5;
    return is_requested;
  };
  const auto sink = make_exec_sink(listener.options);
  const double begun = steady_clock().now();
  end(*sink, {{"exit_code", 0}});
  CHECK(steady_clock().now() - begun < 2 * kTimeout);
  CHECK_THAT(sink->take_warning().value_or(""),
             Contains("had not exited when trainctl was asked to stop, and was stopped"));
}

TEST_CASE("ExecSink: after a stop request, commands still get a short time to exit") {
  Listener listener("");
  const auto got = listener.folder / "got";
  listener.options.command = {"sh", "-c", "cat > '" + got.string() + "'"};
  listener.options.stopped_after_s = kTimeout;
  listener.options.stop_after_s = 2 * kTimeout;
  listener.options.is_stop_requested = [] { return true; };
  const auto sink = make_exec_sink(listener.options);
  end(*sink, {{"exit_code", 75}});
  CHECK_FALSE(sink->take_warning());
  CHECK(lines_in(got).size() == 2);
  listener.options.command = {"sleep", "1000"};
  listener.options.stopped_after_s = 0.2;
  listener.options.stop_after_s = 1000;
  listener.options.kill_after_s = kTimeout;
  const auto slow = make_exec_sink(listener.options);
  end(*slow, {{"exit_code", 75}});
  CHECK_THAT(slow->take_warning().value_or(""),
             Contains("did not exit within 0.20 s, and was stopped"));
}

TEST_CASE("ExecSink: the inputs of all commands are closed before the first wait") {
  Listener first("");
  Listener second("");
  const auto mark = first.folder / "mark";
  second.options.command = {"sh", "-c", "cat > /dev/null; : > '" + mark.string() + "'"};
  first.options.command = {
      "sh", "-c", "cat > /dev/null; while [ ! -e '" + mark.string() + "' ]; do sleep 0.02; done"};
  first.options.stop_after_s = kTimeout;
  second.options.stop_after_s = kTimeout;
  const auto one = make_exec_sink(first.options);
  const auto other = make_exec_sink(second.options);
  for (Sink* sink : {one.get(), other.get()}) sink->on_end({{"exit_code", 0}});
  for (Sink* sink : {one.get(), other.get()}) sink->finish();
  CHECK_FALSE(one->take_warning());
  CHECK_FALSE(other->take_warning());
}

#include "events/pipe.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

namespace trainctl::events {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("pipe2");
    reader = Fd(ends[0]);
    writer = Fd(ends[1]);
    ::fcntl(writer.get(), F_SETFL, 0);
  }
  Fd reader;
  Fd writer;
};

struct Reading {
  std::vector<std::string> lines;
  LineReader::State end = LineReader::State::more;
};

Reading read_all(LineReader& reader, int fd) {
  Reading reading;
  while (reading.end == LineReader::State::more) {
    reading.end =
        reader.read_some(fd, [&](std::string_view line) { reading.lines.emplace_back(line); });
  }
  return reading;
}

}  // namespace

TEST_CASE("EventWriter: events of several threads arrive as whole lines") {
  Pipe pipe;
  EventWriter writer(pipe.writer.get());
  LineReader reader;
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&writer, t] {
      for (int i = 0; i < kEach; ++i)
        writer.write(StoppedEarly{t * kEach + i, std::string(3000, 'x')});
    });
  }
  std::set<std::int64_t> seen;
  while (seen.size() < kThreads * kEach) {
    reader.read_some(pipe.reader.get(), [&](std::string_view line) {
      seen.insert(std::get<StoppedEarly>(decode(line)).epoch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(seen.size() == kThreads * kEach);
}

TEST_CASE("LineReader: joins the pieces of a line and drops an unfinished last line") {
  Pipe pipe;
  LineReader reader;
  write_all(pipe.writer.get(), "first\nsec", "pipe");
  CHECK(read_all(reader, pipe.reader.get()).lines == std::vector<std::string>{"first"});
  write_all(pipe.writer.get(), "ond\n\nhalf", "pipe");
  pipe.writer.reset();
  const Reading rest = read_all(reader, pipe.reader.get());
  CHECK(rest.lines == std::vector<std::string>{"second", ""});
  CHECK(rest.end == LineReader::State::closed);
}

TEST_CASE("LineReader: a line above the limit is reported and not stored") {
  Pipe pipe;
  LineReader reader(100);
  write_all(pipe.writer.get(), std::string(100, 'a') + "\n" + std::string(101, 'b'), "pipe");
  const Reading reading = read_all(reader, pipe.reader.get());
  CHECK(reading.lines == std::vector<std::string>{std::string(100, 'a')});
  CHECK(reading.end == LineReader::State::too_long);
}

TEST_CASE("EventWriter: survives the exit of its reader") {
  Pipe pipe;
  EventWriter writer(pipe.writer.get());
  pipe.reader.reset();
  writer.write(Warning{"nobody listens"});
  CHECK(writer.is_cut_off());
  writer.write(Warning{"still nobody"});
}

TEST_CASE("EventWriter: an event above the limit and an invalid descriptor are errors") {
  Pipe pipe;
  EventWriter writer(pipe.writer.get());
  CHECK_THROWS_AS(writer.write(Warning{std::string(kMaxLineBytes, 'x')}), Error);
  EventWriter closed(-1);
  CHECK_THROWS_AS(closed.write(Warning{"x"}), Error);
}

}  // namespace trainctl::events

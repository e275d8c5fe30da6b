#include "base/error.hpp"
#include "events/fields.hpp"
#include "events/pipe.hpp"
#include "support/catch.hpp"
#include "support/growth.hpp"

#include <cmath>
#include <limits>
#include <random>

namespace trainctl::events {
namespace {

// Fills any record with random values, including edge cases.
class RandomRecord {
 public:
  explicit RandomRecord(unsigned seed) : rng_(seed) {}

  void fill(bool& value) { value = below(2) == 1; }
  void fill(int& value) { value = static_cast<int>(rng_()); }
  void fill(std::int64_t& value) { value = static_cast<std::int64_t>(rng_()); }
  void fill(Phase& value) { value = kPhases[below(kPhases.size())]; }
  void fill(double& value) {
    constexpr std::array kSpecial{std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::denorm_min(),
                                  std::numeric_limits<double>::max(),
                                  -0.0,
                                  0.1,
                                  1e22};
    value = below(2) == 0 ? kSpecial[below(kSpecial.size())]
                          : std::ldexp(static_cast<double>(rng_()), -40);
  }
  void fill(std::string& value) {
    constexpr std::array kPieces{"\n", "\r\n", "\"",  "\\", "\x1b[31m", "\t", "é",
                                 "漢", "\x7f", "nan", "{}", "\x01",     "a b"};
    value.clear();
    for (std::size_t i = below(6); i > 0; --i) value += kPieces[below(kPieces.size())];
  }
  template <class T>
  void fill(std::optional<T>& value) {
    value.reset();
    if (below(2) == 1) fill(value.emplace());
  }
  template <class T>
  void fill(std::map<std::string, T>& values) {
    for (std::size_t i = below(4); i > 0; --i) fill(values[std::to_string(i) + "\n"]);
  }
  template <class T>
  void fill(std::vector<T>& values) {
    for (std::size_t i = below(4); i > 0; --i) fill(values.emplace_back());
  }
  void fill(Metrics& values) {
    for (std::size_t i = below(4); i > 0; --i)
      fill(values.emplace_back("val/m" + std::to_string(i), 0).second);
  }
  void fill(Timing& timing) { fill_record(timing); }
  void fill(Usage& usage) { fill_record(usage); }
  void fill(Quantized& made) { fill_record(made); }
  void fill(TensorSummary& summary) { fill_record(summary); }
  template <class Record>
  void fill_record(Record& record) {
    each_field(record, [&](const char*, auto& value) { fill(value); });
  }

 private:
  std::size_t below(std::size_t bound) { return rng_() % bound; }
  std::mt19937_64 rng_;
};

// NaN differs from itself, so records are compared by their text.
template <std::size_t Index>
void check_round_trips(unsigned seed) {
  std::variant_alternative_t<Index, Event> record;
  RandomRecord(seed).fill_record(record);
  const std::string line = encode(record);
  CHECK(line.find('\n') == std::string::npos);
  const Event back = decode(line);
  CHECK(back.index() == Index);
  CHECK(encode(back) == line);
}

template <std::size_t... Index>
void check_every_type(unsigned seed, std::index_sequence<Index...>) {
  (check_round_trips<Index>(seed), ...);
}

std::string decode_error(std::string_view line) {
  try {
    decode(line);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unexpected);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("codec: every record survives a round trip") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    check_every_type(seed, std::make_index_sequence<std::variant_size_v<Event>>());
  }
}

TEST_CASE("codec: values are equal after a round trip") {
  EpochEnded epoch;
  epoch.metrics = {{"train/loss", 0.1}, {"val/loss", std::numeric_limits<double>::infinity()}};
  epoch.timing.samples = 1'234'567'890'123;
  epoch.timing.gpu_util = 98.5;
  epoch.improved = true;
  const auto back = std::get<EpochEnded>(decode(encode(epoch)));
  CHECK(back.metrics == epoch.metrics);
  CHECK(back.timing.samples == 1'234'567'890'123);
  CHECK(back.timing.gpu_util == 98.5);
  CHECK_FALSE(back.timing.gpu_mem_mb.has_value());
  CHECK(back.improved);

  StepLogged step;
  step.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(encode(step), Contains("\"loss\":\"nan\""));
  CHECK(std::isnan(std::get<StepLogged>(decode(encode(step))).loss));
}

TEST_CASE("codec: control characters and invalid UTF-8 in a message cannot break the line") {
  const std::string line = encode(Warning{"one\ntwo\x1b[2J \xff\xfe three"});
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.find('\x1b') == std::string::npos);
  CHECK_THAT(std::get<Warning>(decode(line)).message,
             Contains("one\ntwo\x1b[2J ") && Contains(" three"));
}

TEST_CASE("codec: unknown fields are ignored") {
  const Event event =
      decode(R"({"event":"warning","message":"hi","sample":"","color":{"r":[1,2]}})");
  CHECK(std::get<Warning>(event).message == "hi");
}

TEST_CASE("codec: a line without an optional field of a later version is accepted") {
  Json old = Json::parse(encode(EpochEnded{.epoch = 7, .usage = Usage{.span_s = 2}}));
  old.erase("usage");
  old["timing"].erase("gpu_util");
  const auto back = std::get<EpochEnded>(decode(old.dump()));
  CHECK(back.epoch == 7);
  CHECK_FALSE(back.usage.has_value());
  CHECK_FALSE(back.timing.gpu_util.has_value());
  old["usage"] = {{"span_s", 2}};
  CHECK_THAT(decode_error(old.dump()), Contains("a field 'cores' in 'usage'"));
  old["usage"] = "much";
  CHECK_THAT(decode_error(old.dump()), Contains("an object in 'usage'"));
}

TEST_CASE("codec: a phase that is missing in a line has no time") {
  EpochEnded ended;
  ended.timing.wall_s = 9;
  ended.timing.eval_s = 4;
  Json line = Json::parse(encode(ended));
  REQUIRE(line["timing"].erase("eval_s") == 1);
  const auto read = std::get<EpochEnded>(decode(to_line(line)));
  CHECK(read.timing.wall_s == 9);
  CHECK(read.timing.eval_s == 0);
}

TEST_CASE("codec: the error for an invalid line names the expected value") {
  CHECK_THAT(decode_error(""), Contains("not JSON"));
  CHECK_THAT(decode_error("{\"event\":"), Contains("not JSON"));
  CHECK_THAT(decode_error("[1]"), Contains("field 'event' is missing"));
  CHECK_THAT(decode_error("{\"event\":7}"), Contains("field 'event' is missing"));
  CHECK_THAT(decode_error("{\"event\":\"party\"}"), Contains("'party'"));
  CHECK_THAT(decode_error("{\"event\":\"warning\"}"), Contains("a field 'message'"));
  CHECK_THAT(decode_error("{\"event\":\"warning\",\"message\":1,\"sample\":\"\"}"),
             Contains("a string in 'message'"));
  CHECK_THAT(decode_error(R"({"event":"stopped_early","epoch":1.5,"reason":""})"),
             Contains("an integer in 'epoch'"));
  CHECK_THAT(decode_error(R"({"event":"stopped_early","epoch":9223372036854775808,"reason":""})"),
             Contains("64 bits"));
  const std::string long_control = "\x1b" + std::string(100'000, 'x');
  CHECK(decode_error(long_control).size() < 300);
  CHECK(decode_error(long_control).find('\x1b') == std::string::npos);
}

TEST_CASE("codec: a truncated event is rejected") {
  const std::string line = encode(EpochEnded{});
  for (std::size_t cut = 0; cut < line.size(); ++cut)
    CHECK_THROWS_AS(decode(line.substr(0, cut)), Error);
}

TEST_CASE("codec: metrics are an object in their order") {
  const std::string line = encode(EpochEnded{.metrics = {{"z", 1.0}, {"a", 2.0}}});
  CHECK(line.find(R"("metrics":{"z":1.0,"a":2.0})") != std::string::npos);
  CHECK(to_json(Timing{}).contains("wall_s"));
}

TEST_CASE("growth: decoding an event is linear in the length of a text") {
  const auto text = [](std::size_t length) {
    return [line = encode(Warning{std::string(length, '\n'), ""})] { (void)decode(line); };
  };
  CHECK(growth_per_doubling(text, 2'000) <= kMostPerDoubling);
}

}  // namespace trainctl::events

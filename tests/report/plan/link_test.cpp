#include "base/error.hpp"
#include "report/plan/communication_cost.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::report;

namespace {

/// Returns all-reduce times of `ranks` ranks that follow the formula of a ring.
events::LinkMeasured ideal(int ranks, const Link& link) {
  events::LinkMeasured measured;
  measured.backend = "gloo";
  measured.device = "cpu";
  measured.ranks = ranks;
  for (std::int64_t bytes = 1 << 10; bytes <= 64 << 20; bytes *= 4) {
    measured.bytes.push_back(bytes);
    measured.seconds.push_back(ring_seconds(ranks, static_cast<double>(bytes), link));
    measured.repeats.push_back(20);
  }
  return measured;
}

}  // namespace

TEST_CASE("fit_link: ideal times of any number of ranks give the link back") {
  const Link link{.latency_s = 25e-6, .bytes_per_s = 2e9};
  for (const int ranks : {2, 3, 8}) {
    CAPTURE(ranks);
    const LinkFit fit = fit_link(ideal(ranks, link));
    CHECK(fit.link.latency_s == Approx(link.latency_s).epsilon(1e-6));
    CHECK(fit.link.bytes_per_s == Approx(link.bytes_per_s).epsilon(1e-6));
    CHECK(fit.deviation < 1e-6);
  }
}

TEST_CASE("fit_link: two sizes between two ranks match values computed by hand") {
  // There are 2 messages of half the bytes: 1,000 B take 3 ms and 2,000 B take 5 ms, so a byte
  // takes 2 us and both messages 1 ms.
  events::LinkMeasured measured;
  measured.ranks = 2;
  measured.bytes = {1000, 2000};
  measured.seconds = {0.003, 0.005};
  measured.repeats = {5, 5};
  const LinkFit fit = fit_link(measured);
  CHECK(fit.link.latency_s == Approx(0.0005));
  CHECK(fit.link.bytes_per_s == Approx(500'000));
}

TEST_CASE(
    "fit_link: small and large messages have equal weight, and the worst deviation is reported") {
  events::LinkMeasured measured = ideal(2, {.latency_s = 25e-6, .bytes_per_s = 2e9});
  measured.seconds[0] *= 2;
  const LinkFit fit = fit_link(measured);
  CHECK(fit.link.latency_s > 25e-6);
  CHECK(fit.link.latency_s < 50e-6);
  CHECK(fit.link.bytes_per_s == Approx(2e9).epsilon(0.05));
  CHECK(fit.deviation > 0.2);
}

TEST_CASE("fit_link: noise never gives a negative latency or an invalid bandwidth") {
  events::LinkMeasured measured;
  measured.ranks = 2;
  measured.bytes = {1000, 1'000'000};
  measured.repeats = {5, 5};
  measured.seconds = {0.0001, 0.2};  // small messages are faster than a straight line
  CHECK(fit_link(measured).link.latency_s == 0);
  measured.seconds = {0.2, 0.1};  // small messages are slower than large ones
  const Link link = fit_link(measured).link;
  CHECK(link.latency_s == 0);
  CHECK(link.bytes_per_s == Approx(1e7));
  measured.bytes = {1000};
  measured.seconds = {0.001};
  measured.repeats = {5};
  CHECK(fit_link(measured).link.bytes_per_s == Approx(1e6));
}

TEST_CASE("fit_link: unusable measurements are an error") {
  events::LinkMeasured measured = ideal(2, {.latency_s = 1e-5, .bytes_per_s = 1e9});
  const auto check_error = [](const events::LinkMeasured& one) {
    CHECK_THROWS_WITH(fit_link(one), Contains("cannot estimate latency and bandwidth"));
  };
  measured.ranks = 1;
  check_error(measured);
  measured.ranks = 2;
  measured.seconds[3] = 0;
  check_error(measured);
  measured.seconds.clear();
  check_error(measured);
}

TEST_CASE("link: printed as a table, latency and bandwidth, and read back from JSON") {
  const events::LinkMeasured measured = ideal(2, {.latency_s = 25e-6, .bytes_per_s = 2e9});
  const std::string text = link_text(measured, {});
  CHECK_THAT(text, Contains("all-reduce over 2 processes on cpu with gloo") &&
                       Contains(" 1.0 KiB") && Contains("64.0 MiB") &&
                       Contains("latency    25 us per message") &&
                       Contains("bandwidth  2 GB/s between neighbors"));
  const Json link = link_json(measured);
  CHECK(link["schema"] == "trainctl.link/2");
  CHECK(link["points"].size() == 9);
  const Json doctor{{"schema", "trainctl.doctor/2"}, {"link", link}};
  for (const Json& document : {link, doctor}) {
    const Link read = read_link(document, "link.json");
    CHECK(read.latency_s == Approx(25e-6));
    CHECK(read.bytes_per_s == Approx(2e9));
  }
}

TEST_CASE("read_link: a file without a link is an error that names the command to create one") {
  const auto check_error = [](const Json& document, const char* why) {
    CHECK_THROWS_WITH(read_link(document, "x.json"), Contains("x.json") && Contains(why));
  };
  check_error(Json::array(), "doctor --link --json");
  check_error({{"schema", "trainctl.doctor/2"}}, "doctor --link --json");
  check_error({{"link", nullptr}}, "doctor --link --json");
  Json link = link_json(ideal(2, {.latency_s = 25e-6, .bytes_per_s = 2e9}));
  link["latency_s"] = "soon";
  check_error(link, "'latency_s' of the link must be a number");
  link["latency_s"] = 0.001;
  link["bandwidth_bytes_per_s"] = 0;
  check_error(link, "a link must have");
}

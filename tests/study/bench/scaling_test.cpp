#include "base/error.hpp"
#include "study/bench/trials.hpp"
#include "support/catch.hpp"

#include <string>

using namespace trainctl;
using namespace trainctl::study;

namespace {

std::vector<Setting> settings(const std::vector<Axis>& axes) { return product(axes); }

Axis devices(std::string_view values) { return parse_axis("trainer.devices", values); }

std::int64_t sixty_four(const Setting& /*setting*/) { return 64; }

std::string overrides_of(const Setting& setting) {
  std::string text;
  for (const std::string& one : setting.overrides()) text += one + " ";
  return text;
}

}  // namespace

TEST_CASE("keep_global_batch: the first number of devices keeps its batch, and others divide it") {
  auto some = settings({devices("1,2,4")});
  keep_global_batch(some, sixty_four);
  CHECK(overrides_of(some[0]) == "trainer.devices=1 loader.batch_size=64 ");
  CHECK(overrides_of(some[1]) == "trainer.devices=2 loader.batch_size=32 ");
  CHECK(overrides_of(some[2]) == "trainer.devices=4 loader.batch_size=16 ");
  CHECK(some[2].technique == "devices=4");
}

TEST_CASE("keep_global_batch: the global batch counts all devices of the first setting") {
  auto some = settings({devices("2,4")});
  int asked_for = 0;
  keep_global_batch(some, [&](const Setting& setting) {
    asked_for = *devices_of(setting);
    return std::int64_t{10};
  });
  CHECK(asked_for == 2);  // only the base asks for the batch size of the file
  CHECK(overrides_of(some[0]) == "trainer.devices=2 loader.batch_size=10 ");
  CHECK(overrides_of(some[1]) == "trainer.devices=4 loader.batch_size=5 ");
}

TEST_CASE("keep_global_batch: an axis of batch sizes is divided too") {
  auto some = settings({devices("1,2"), parse_axis("loader.batch_size", "64,128")});
  keep_global_batch(some,
                    [](const Setting& setting) { return std::stoll(setting.values[1].second); });
  CHECK(overrides_of(some[3]) == "trainer.devices=2 loader.batch_size=64 ");
  CHECK(some[3].technique == "devices=2, batch_size=128");
}

TEST_CASE("keep_global_batch: the error for an indivisible batch suggests weak scaling") {
  auto some = settings({devices("1,3")});
  CHECK_THROWS_WITH(keep_global_batch(some, sixty_four),
                    Contains("keeps the 64 samples of a step (64 on 1 device)") &&
                        Contains("evenly among 3 devices") && Contains("--scaling weak"));
}

TEST_CASE("keep_global_batch: an axis of positive device counts is required") {
  auto none = settings({parse_axis("loader.num_workers", "0,2")});
  CHECK_THROWS_WITH(keep_global_batch(none, sixty_four), Contains("--devices 1,2"));
  auto automatic = settings({devices("auto,2")});
  CHECK_THROWS_WITH(keep_global_batch(automatic, sixty_four),
                    Contains("--devices must be numbers, got 'auto'"));
  auto zero = settings({devices("0,2")});
  CHECK_THROWS_AS(keep_global_batch(zero, sixty_four), Error);
}

#include "base/error.hpp"
#include "spec/experiment_yaml.hpp"
#include "study/workers/worker_launch.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <string>

using namespace trainctl;

namespace {

constexpr const char* kKeepaliveVariable = "TRAINCTL_NODE_BEAT_S";

std::string digest(const std::vector<std::string>& overrides) {
  return study::config_digest(load_valid(overrides));
}

}  // namespace

TEST_CASE("config digest: is the same for equal values in any notation") {
  CHECK(digest({}) == digest({}));
  CHECK(digest({"optimizer.lr=0.001"}) == digest({"optimizer={type: adam, lr: 1e-3}"}));
  CHECK(digest({"optimizer.lr=0.1"}) != digest({"optimizer.lr=0.2"}));
  CHECK(digest({"trainer.max_epochs=3"}) != digest({"trainer.max_epochs=4"}));
}

TEST_CASE("config digest: each node may have a different interface") {
  CHECK(digest({"distributed.interface=eth0"}) == digest({"distributed.interface=eth1"}));
}

TEST_CASE("first_difference: contains the values of both nodes") {
  const std::string theirs = spec::dump_resolved(load_valid({"optimizer.lr=0.1"}));
  CHECK(study::first_difference(theirs, load_valid({"optimizer.lr=0.2"})) ==
        "optimizer.lr is 0.1 on node 0 and 0.2 on this node");
  CHECK(study::first_difference(theirs, load_valid({"optimizer.lr=0.1"})).empty());
}

TEST_CASE(
    "keepalive_times: 5 s between heartbeats and 15 s of silence unless a test sets another "
    "interval") {
  ::unsetenv(kKeepaliveVariable);
  CHECK(study::keepalive_times().interval_s == 5);
  CHECK(study::keepalive_times().timeout_s == 15);
  ::setenv(kKeepaliveVariable, "0.5", 1);
  CHECK(study::keepalive_times().interval_s == 0.5);
  CHECK(study::keepalive_times().timeout_s == 1.5);
  for (const char* garbage : {"", "x", "0", "61", "5s", "nan"}) {
    ::setenv(kKeepaliveVariable, garbage, 1);
    CHECK_THROWS_WITH(study::keepalive_times(), Contains(kKeepaliveVariable));
  }
  ::unsetenv(kKeepaliveVariable);
}

TEST_CASE("group_address: uses distributed.interface, otherwise the address of the supervisors") {
  CHECK(study::group_address(load_valid({}).experiment, "10.0.0.7") == "10.0.0.7");
  CHECK(study::group_address(load_valid({"distributed.interface=lo"}).experiment, "10.0.0.7") ==
        "127.0.0.1");
}

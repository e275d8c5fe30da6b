#include "spec/experiment/distributed.hpp"
#include "support/catch.hpp"

using namespace trainctl::spec;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::vector<std::int64_t> bytes_of(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(bucket.bytes);
  return bytes;
}

}  // namespace

TEST_CASE(
    "bucket_layout: fills buckets from the last parameter, and the last gradient may "
    "exceed the limit") {
  // The first bucket is closed at 1 MiB, the next at 4 MiB; the remaining one is reduced first.
  const std::vector<std::int64_t> gradients{kMiB / 2, kMiB, 3 * kMiB, 2 * kMiB, kMiB, 8};
  const auto buckets = bucket_layout(gradients, 4 * kMiB);
  CHECK(bytes_of(buckets) == std::vector<std::int64_t>{kMiB + 8, 5 * kMiB, 3 * kMiB / 2});
  CHECK(buckets[0].parameters == 2);
  CHECK(buckets[1].parameters == 2);
  CHECK(buckets[2].parameters == 2);
}

TEST_CASE(
    "bucket_layout: a gradient above the limit has its own bucket, and a small model one bucket") {
  const std::vector<std::int64_t> large{40 * kMiB, 40 * kMiB};
  CHECK(bytes_of(bucket_layout(large, 25 * kMiB)) ==
        std::vector<std::int64_t>{40 * kMiB, 40 * kMiB});
  const std::vector<std::int64_t> small{4, 8, 12};
  CHECK(bytes_of(bucket_layout(small, 25 * kMiB)) == std::vector<std::int64_t>{24});
  CHECK(bucket_layout({}, 25 * kMiB).empty());
}

TEST_CASE("bucket_layout: a full first bucket is not followed by an empty one") {
  const std::vector<std::int64_t> gradients{kMiB};
  CHECK(bytes_of(bucket_layout(gradients, 25 * kMiB)) == std::vector<std::int64_t>{kMiB});
}

TEST_CASE("layout_text: returns the format that checkpoints contain") {
  const std::vector<Bucket> buckets{{2, 5200}, {14, 102400}};
  CHECK(layout_text(buckets) == "2x1300,14x25600");
  CHECK(layout_text({}).empty());
}

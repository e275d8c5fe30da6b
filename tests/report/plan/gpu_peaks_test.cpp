#include "report/plan/model_plan.hpp"
#include "support/catch.hpp"

using trainctl::report::peak_flops;

TEST_CASE("peak_flops: a GPU is found by the name from its driver") {
  CHECK(peak_flops("NVIDIA H200", "bf16-mixed") == 989.5e12);
  CHECK(peak_flops("NVIDIA H100 80GB HBM3", "bf16-mixed") == 989.5e12);
  CHECK(peak_flops("NVIDIA H100 PCIe", "tf32") == 378e12);
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", "tf32") == 156e12);
  CHECK(peak_flops("NVIDIA L4", "16-mixed") == 121e12);
  CHECK(peak_flops("NVIDIA L40S", "16-mixed") == 362e12);
  CHECK(peak_flops("NVIDIA GeForce RTX 4090", "bf16-mixed") == 165.2e12);
}

TEST_CASE("peak_flops: IEEE float32 has a lower peak than TF32, and exists without TF32") {
  CHECK(peak_flops("NVIDIA H200", "32-true") == 67e12);
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", "32-true") == 19.5e12);
  CHECK(peak_flops("Tesla T4", "32-true") == 8.1e12);
  CHECK_FALSE(peak_flops("Tesla T4", "tf32").has_value());
}

TEST_CASE("peak_flops: unknown chips, MIG slices and unsupported formats have no peak") {
  for (const char* name :
       {"", "NVIDIA B200", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA L40", "h100"}) {
    CAPTURE(name);
    CHECK_FALSE(peak_flops(name, "bf16-mixed").has_value());
  }
  CHECK_FALSE(peak_flops("Tesla T4", "bf16-mixed").has_value());
  CHECK(peak_flops("Tesla T4", "16-mixed") == 65e12);
}

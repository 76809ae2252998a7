#pragma once

#include <string>
#include <utility>

#include "place/instances.hpp"
#include "trainyard/graph/builder.hpp"

namespace trainyard::test {

/// Independent chains of unit ops, `length` each, on p0, p1, ...: with a device for each chain, a step takes
/// length x 1000 ns; on one device, chains times that.
inline Problem independent_chains(std::size_t chains, std::size_t length, std::size_t devices) {
  GraphBuilder builder{"chains"};
  for (std::size_t step = 0; step < length; ++step)
    for (std::size_t chain = 0; chain < chains; ++chain) {
      const auto name = [&](std::size_t at) { return "c" + std::to_string(chain) + "." + std::to_string(at); };
      OpSpec op{
          .name = name(step), .times = {{"cpu", Nanoseconds{1000}}}, .outputs = {{name(step) + ".out", Bytes{400}}}};
      if (step > 0) op.inputs = {name(step - 1) + ".out"};
      builder.add(std::move(op));
    }
  return Problem{std::move(builder).build(), make_cluster(full_mesh(devices))};
}

}  // namespace trainyard::test

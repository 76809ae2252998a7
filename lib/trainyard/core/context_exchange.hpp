#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard {

/// How the ranks that share the sequence of each sample (context parallelism) obtain the keys and values of the whole
/// sequence: by an all-gather; by an all-to-all that turns shares of the sequence into shares of the heads, and another
/// one back; or around a ring, where each rank passes blocks on to the next while it attends to those it has.
enum class ContextExchange : std::uint8_t { all_gather, all_to_all, ring };
inline constexpr std::array kContextExchanges{ContextExchange::all_gather, ContextExchange::all_to_all,
                                              ContextExchange::ring};

inline const char* name_of(ContextExchange exchange) {
  return exchange == ContextExchange::all_gather   ? "all-gather"
         : exchange == ContextExchange::all_to_all ? "all-to-all"
                                                   : "ring";
}
/// Help text for networks whose attention is several ops: their rows cannot be shared among ranks.
inline constexpr const char* kTakeFusedAttention =
    "use a network whose attention is one op: for networks of the zoo, set fused=1 (gpt2:fused=1)";
inline std::optional<ContextExchange> find_context_exchange(std::string_view name) {
  for (const ContextExchange each : kContextExchanges)
    if (name == name_of(each)) return each;
  return std::nullopt;
}

}  // namespace trainyard

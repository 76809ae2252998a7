#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trainyard {

/// How ranks that share the sequence of each sample (context parallelism) come by the keys and values of all of it: an
/// all-gather of these; an all-to-all, from a share of the sequence to a share of the heads and back; or a ring, each
/// rank's going around to the next while those that are there are attended to.
enum class ContextExchange : std::uint8_t { all_gather, all_to_all, ring };
inline constexpr std::array kContextExchanges{ContextExchange::all_gather, ContextExchange::all_to_all,
                                              ContextExchange::ring};

inline const char* name_of(ContextExchange exchange) {
  return exchange == ContextExchange::all_gather   ? "all-gather"
         : exchange == ContextExchange::all_to_all ? "all-to-all"
                                                   : "ring";
}
/// What to do where attention is several ops, whose rows ranks cannot share.
inline constexpr const char* kTakeFusedAttention =
    "take a network whose attention is one op: those of the zoo have the parameter fused=1 (gpt2:fused=1)";
inline std::optional<ContextExchange> find_context_exchange(std::string_view name) {
  for (const ContextExchange each : kContextExchanges)
    if (name == name_of(each)) return each;
  return std::nullopt;
}

}  // namespace trainyard

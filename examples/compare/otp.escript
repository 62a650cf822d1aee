#!/usr/bin/env escript
%% Measures OTP's supervisor as compare measures the others.
-mode(compile).
-export([start_link/1, child/2, init/1]).

main([N, Restarts]) ->
    Children = list_to_integer(N),
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    Before = memory(),
    {ok, Sup} = supervisor:start_link(?MODULE, {self(), Children}),
    Bytes = (memory() - Before) / Children,
    flush(),
    Pids = list_to_tuple([Pid || {_, Pid, _, _} <- supervisor:which_children(Sup)]),
    Count = list_to_integer(Restarts),
    {_, Times} = lists:foldl(fun(_, {Dead, Times}) ->
        Pid = pick(Pids, Dead),
        Began = erlang:monotonic_time(nanosecond),
        exit(Pid, kill),
        receive {ready, _, At} -> {Dead#{Pid => true}, [(At - Began) / 1000 | Times]} end
    end, {#{}, []}, lists:seq(1, min(Count, Children))),
    Sorted = lists:sort(Times),
    io:format("{\"Median\":~w,\"Worst\":~w,\"Bytes\":~w}~n",
        [nth(0.5, Sorted), nth(0.99, Sorted), Bytes]),
    halt(0).

pick(Pids, Dead) ->
    Pid = element(rand:uniform(tuple_size(Pids)), Pids),
    case Dead of
        #{Pid := _} -> pick(Pids, Dead);
        _ -> Pid
    end.

nth(Part, List) -> lists:nth(max(1, ceil(Part * length(List))), List).

memory() ->
    erlang:garbage_collect(),
    timer:sleep(200),
    erlang:memory(total).

flush() -> receive {ready, _, _} -> flush() after 0 -> ok end.

init({Owner, Children}) ->
    {ok, {#{strategy => one_for_one, intensity => 1000000, period => 1},
        [#{id => Id, start => {?MODULE, start_link, [Owner]}} || Id <- lists:seq(1, Children)]}}.

start_link(Owner) -> proc_lib:start_link(?MODULE, child, [self(), Owner]).

child(Parent, Owner) ->
    proc_lib:init_ack(Parent, {ok, self()}),
    Owner ! {ready, self(), erlang:monotonic_time(nanosecond)},
    receive stop -> ok end.

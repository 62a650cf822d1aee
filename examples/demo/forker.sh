# Starts two helpers, one of them in a session of its own, and ends while they run.
sleep 1000 &
setsid sleep 1000 &
echo "helpers started"
sleep 15
echo "leaving my helpers behind"

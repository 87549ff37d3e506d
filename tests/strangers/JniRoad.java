/** Java with a native method, called from a thread of its own. */
public class JniRoad {
    private static native int go();

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        Thread thread = new Thread(JniRoad::go);
        thread.start();
        thread.join();
    }
}
